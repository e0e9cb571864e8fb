#include "pod_network.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/descriptor.hpp"
#include "osm/inject/interception.hpp"

namespace osm::cni {
namespace {

constexpr std::chrono::seconds kLongest{20};
constexpr std::size_t kMaxOutput = 4096;  // bytes of what a script said

Error failure(std::string_view what) {
  return {ErrorCode::kUnavailable, fmt::format("{}: {}", what, std::strerror(errno))};
}

// In the child. A new /proc shows the network of who reads it.
[[noreturn]] void become(const PodNetwork& pod, int ns, const std::filesystem::path& root,
                         const std::string& script, int output) {
  const auto fail = [](const char* what) {
    dprintf(STDERR_FILENO, "%s: %s\n", what, std::strerror(errno));
    _exit(126);
  };
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  setpgid(0, 0);
  const std::filesystem::path proc = root / "proc", dev = root / "dev";
  if (setns(ns, CLONE_NEWNET) != 0) fail("join the pod's network namespace");
  if (unshare(CLONE_NEWNS) != 0) fail("make a mount namespace");
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) fail("make mounts private");
  if (mount("proc", proc.c_str(), "proc", 0, nullptr) != 0) fail("mount /proc");
  if (mount("/dev", dev.c_str(), nullptr, MS_BIND, nullptr) != 0) fail("mount /dev");
  if (chroot(root.c_str()) != 0 || chdir("/") != 0) fail("enter the files of osm-init");
  std::array variables{std::string("PATH=/usr/sbin:/usr/bin:/sbin:/bin"), "POD_IP=" + pod.ip,
                       "POD_IPS=" + pod.addresses, "NAME_SERVERS=" + pod.name_servers};
  std::array<char*, 5> environment{variables[0].data(), variables[1].data(), variables[2].data(),
                                   variables[3].data(), nullptr};
  std::string shell = "sh", option = "-c", text = script;
  std::array<char*, 4> arguments{shell.data(), option.data(), text.data(), nullptr};
  execve("/bin/sh", arguments.data(), environment.data());
  fail("run /bin/sh of osm-init");
  _exit(126);
}

// Reads a descriptor until its end or the deadline. It drops the rest of long output.
std::string read_to_end(int from, std::chrono::steady_clock::time_point deadline) {
  std::string text;
  std::array<char, 1024> part{};
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd waiting{from, POLLIN, 0};
    if (left.count() <= 0 || poll(&waiting, 1, static_cast<int>(left.count())) == 0) return text;
    const ssize_t count = read(from, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
    text.resize(std::min(text.size(), kMaxOutput));
  }
}

sockaddr_in outbound_port() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(number(inject::kOutboundPort));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// True if the kernel's table has a listener at the proxy's outbound port.
bool somebody_listens() {
  std::ifstream table("/proc/net/tcp");
  const std::string end = fmt::format(":{:04X}", number(inject::kOutboundPort));
  std::string line, slot, local, remote, state;
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    if (fields >> slot >> local >> remote >> state && local.ends_with(end) && state == "0A")
      return true;
  }
  return false;
}

// True if the namespace is this process's own: its rules would be the node's.
bool is_own(const Descriptor& ns) {
  struct stat given {
  }, own{};
  return fstat(ns.get(), &given) != 0 || stat("/proc/self/ns/net", &own) != 0 ||
         (given.st_dev == own.st_dev && given.st_ino == own.st_ino);
}

}  // namespace

Status run_in(const PodNetwork& pod, const std::filesystem::path& root, const std::string& script) {
  const Descriptor ns(open(pod.ns.c_str(), O_RDONLY | O_CLOEXEC));
  if (!ns) return failure("network namespace " + pod.ns);
  if (is_own(ns))
    return Error{ErrorCode::kInvalidArgument, pod.ns + " is the node's own network namespace"};
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return failure("pipe");
  const Descriptor reader(ends[0]);
  Descriptor writer(ends[1]);
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  const pid_t child = fork();
  if (child < 0) return failure("fork");
  if (child == 0) become(pod, ns.get(), root, script, writer.get());
  setpgid(child, child);
  writer.close();
  std::string said = read_to_end(reader.get(), deadline);
  const bool late = std::chrono::steady_clock::now() >= deadline;
  if (late) kill(-child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (late)
    return Error{ErrorCode::kUnavailable,
                 fmt::format("not ready after {} s: {}", kLongest.count(), said)};
  if (status == 0) return {};
  while (said.ends_with('\n')) said.pop_back();
  return Error{ErrorCode::kUnavailable, said.empty() ? "the script failed" : said};
}

Result<bool> is_intercepted() {
  const sockaddr_in address = outbound_port();
  const auto* const raw = reinterpret_cast<const sockaddr*>(&address);
  const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Descriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener || !client) return failure("socket");
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // A proxy that runs already listens there, which is as good.
  if (bind(listener.get(), raw, sizeof address) == 0) {
    if (listen(listener.get(), 1) != 0) return failure("listen");
  } else if (errno != EADDRINUSE || !somebody_listens()) {
    return failure("bind");
  }
  if (connect(client.get(), raw, sizeof address) == 0) return false;
  if (errno == ECONNREFUSED) return true;
  return failure("connect");
}

}  // namespace osm::cni
