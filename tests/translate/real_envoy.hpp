// A real Envoy that takes its resources from files, for as long as the object lives.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "lib/places.hpp"
#include "lib/temporary_directory.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/values/proxy.hpp"
#include "translate/json.hpp"
#include "translate/snapshots.hpp"

namespace osm::translate_test {

using Replacements = std::vector<std::pair<std::string, std::string>>;

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

inline bool eventually(const std::function<bool()>& holds,
                       std::chrono::seconds deadline = std::chrono::seconds(20)) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (std::chrono::steady_clock::now() < end) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return holds();
}

inline sockaddr_in socket_address(const std::string& host, int tcp_port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(tcp_port));
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

// The answer of `host:port` to `request` until it closes; empty when it cannot be reached.
inline std::string exchange(const std::string& host, int tcp_port, const std::string& request) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto address = socket_address(host, tcp_port);
  std::string answer;
  timeval patience{20, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size())) {
    char buffer[4096];
    for (ssize_t n; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;)
      answer.append(buffer, static_cast<std::size_t>(n));
  }
  close(fd);
  return answer;
}

// 0: no answer.
inline int http_status(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::stoi(answer.substr(9, 3)) : 0;
}

using osm::testing::TemporaryDirectory;

// Both secrets of a proxy.
inline std::vector<translate::EncodedResource> secrets_of(const certificate::Certificate& own,
                                                          const std::string& trust_bundle_pem) {
  return {translate::encode_root_cert(trust_bundle_pem), translate::encode_service_cert(own)};
}

class RealEnvoy {
 public:
  // `changes` are made to the JSON text of every resource: where a test stands in for interception.
  RealEnvoy(const Mesh& mesh, const translate::ProxyClass& of,
            const certificate::Certificate& certificate, const std::string& trust_bundle_pem,
            const Replacements& changes) {
    REQUIRE_MESSAGE(std::filesystem::exists(envoy_), "no Envoy at ", envoy_, ": run tools/setup");
    std::map<XdsType, std::vector<translate::EncodedResource>> resources;
    for (const XdsType type : kXdsTypes)
      for (const auto& input : mesh.inputs(of, type)) resources[type].push_back(input->encode());
    resources[XdsType::kSecret] = secrets_of(certificate, trust_bundle_pem);
    for (const XdsType type : kXdsTypes) {
      expected_[type] = resources[type].size();
      const bool whole = type == XdsType::kCluster || type == XdsType::kListener;
      if (whole) directory_.write(file_of(type), discovery_response(resources[type], changes));
      // A file that a proxy asks for one name must hold that name alone.
      for (const auto& one : resources[type])
        if (!whole) directory_.write(file_of(type, one.name), discovery_response({one}, changes));
    }
    directory_.write("bootstrap.json", bootstrap());
    start();
  }

  ~RealEnvoy() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  RealEnvoy(const RealEnvoy&) = delete;
  RealEnvoy& operator=(const RealEnvoy&) = delete;

  // True if every listener and cluster is in use, fully warmed, and nothing was refused.
  bool accepted_everything() {
    const bool settled = eventually([this] {
      const auto now = stats();
      return now.at("listener_manager.total_listeners_active") == expected_[XdsType::kListener] &&
             now.at("listener_manager.total_listeners_warming") == 0 &&
             now.at("cluster_manager.active_clusters") == expected_[XdsType::kCluster] &&
             now.at("cluster_manager.warming_clusters") == 0;
    });
    bool refused = false;
    for (const auto& [name, value] : stats()) {
      const bool bad = (name.ends_with("update_rejected") || name.ends_with("update_failure") ||
                        name.ends_with("init_fetch_timeout")) &&
                       value > 0;
      if (bad) MESSAGE(name << ": " << value);
      refused |= bad;
    }
    if (!settled || refused) MESSAGE(log());
    return settled && !refused;
  }

  std::map<std::string, std::uint64_t> stats() const {
    std::map<std::string, std::uint64_t> out{{"listener_manager.total_listeners_active", ~0ull},
                                             {"listener_manager.total_listeners_warming", ~0ull},
                                             {"cluster_manager.active_clusters", ~0ull},
                                             {"cluster_manager.warming_clusters", ~0ull}};
    std::istringstream lines(admin("/stats"));
    for (std::string line; std::getline(lines, line);) {
      const auto colon = line.find(": ");
      if (colon != line.npos && std::isdigit(static_cast<unsigned char>(line[colon + 2])))
        out[line.substr(0, colon)] = std::stoull(line.substr(colon + 2));
    }
    return out;
  }

  std::string log() const { return directory_.read("envoy.log"); }
  std::string access_log() const { return directory_.read("stdout"); }

 private:
  static std::string file_of(XdsType type, const std::string& name = "") {
    return std::string(xds_type_text(type)) + replaced(replaced(name, "/", "_"), "|", "_") +
           ".json";
  }

  // A proxy asks ADS for `name`. This one watches a file instead.
  std::string watching_files(std::string json, const std::string& name) const {
    const std::string ads = R"(\{"ads":\{\},"resource_api_version":"V3"\})";
    const auto file = [&](XdsType type, const std::string& of) {
      return R"({"path_config_source":{"path":")" + directory_.file("") + file_of(type, of) +
             R"("},"resource_api_version":"V3"})";
    };
    json = std::regex_replace(json, std::regex(R"("eds_config":)" + ads),
                              R"("eds_config":)" + file(XdsType::kEndpoint, name));
    for (const char* secret : {translate::kServiceCertSecret, translate::kRootCertSecret}) {
      const std::string named = '"' + std::string(secret) + R"(","sds_config":)";
      json =
          std::regex_replace(json, std::regex(named + ads), named + file(XdsType::kSecret, secret));
    }
    const std::regex routes(R"("config_source":)" + ads +
                            R"re((,"route_config_name":"([^"]+)"))re");
    for (std::smatch found; std::regex_search(json, found, routes);)
      json.replace(static_cast<std::size_t>(found.position()),
                   static_cast<std::size_t>(found.length()),
                   R"("config_source":)" + file(XdsType::kRoute, found[2]) + found[1].str());
    return json;
  }

  std::string discovery_response(const std::vector<translate::EncodedResource>& resources,
                                 const Replacements& changes) const {
    std::string list;
    for (const auto& resource : resources) {
      google::protobuf::Any any;
      REQUIRE(any.ParseFromString(resource.any));
      const auto json = translate::to_json(any, false);
      REQUIRE(json);
      list += (list.empty() ? "" : ",") + watching_files(*json, resource.name);
    }
    for (const auto& [from, to] : changes) list = replaced(list, from, to);
    return "{\"version_info\":\"1\",\"resources\":[" + list + "]}";
  }

  std::string bootstrap() const {
    const auto source = [&](XdsType type) {
      return "{\"path_config_source\":{\"path\":\"" + directory_.file(file_of(type)) +
             "\"},\"resource_api_version\":\"V3\"}";
    };
    return "{\"node\":{\"id\":\"test\",\"cluster\":\"test\"},\"admin\":{\"address\":{"
           "\"socket_address\":{\"address\":\"127.0.0.1\",\"port_value\":0}}},"
           "\"dynamic_resources\":{\"cds_config\":" +
           source(XdsType::kCluster) + ",\"lds_config\":" + source(XdsType::kListener) + "}}";
  }

  void start() {
    const std::string config = directory_.file("bootstrap.json");
    const std::string admin_path = directory_.file("admin");
    const std::string log_path = directory_.file("envoy.log");
    const std::string stdout_path = directory_.file("stdout");
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      const int out = open(stdout_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(out, 1);
      dup2(out, 2);
      execl(envoy_.c_str(), envoy_.c_str(), "-c", config.c_str(), "--disable-hot-restart",
            "--admin-address-path", admin_path.c_str(), "--log-path", log_path.c_str(), "-l",
            "warning", "--concurrency", "1", static_cast<char*>(nullptr));
      _exit(127);
    }
    REQUIRE_MESSAGE(eventually([&] { return !directory_.read("admin").empty(); }), log());
    const std::string address = directory_.read("admin");
    admin_port_ = std::stoi(address.substr(address.rfind(':') + 1));
  }

  std::string admin(const std::string& path) const {
    return exchange("127.0.0.1", admin_port_,
                    "GET " + path + " HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n");
  }

  const std::string envoy_ = osm::testing::envoy();
  TemporaryDirectory directory_;
  std::map<XdsType, std::uint64_t> expected_;
  pid_t pid_ = -1;
  int admin_port_ = 0;
};

}  // namespace osm::translate_test
