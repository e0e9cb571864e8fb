#include "api_server_process.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <sstream>

#include "synthetic_api_server.hpp"

namespace osm::bench {
namespace {

Error lost_server() {
  return {ErrorCode::kUnavailable, "the API server ended early; its own message stands above"};
}

std::string execute(SyntheticApiServer& server, const std::string& command) {
  std::istringstream words(command);
  std::string verb;
  words >> verb;
  std::ostringstream answer;
  answer << "ok";
  if (verb == "happen") {
    int what = 0;
    int count = 0;
    words >> what >> count;
    server.happen(static_cast<Happening>(what), count);
  } else if (verb == "expire") {
    std::size_t watches = 0;
    words >> watches;
    server.expire(watches);
  } else if (verb == "parse") {
    const ApiServerProcess::Parsing parsing = server.parse_everything();
    answer << ' ' << parsing.cpu_seconds << ' ' << parsing.bytes << ' ' << parsing.pod_bytes;
  }
  return answer.str();
}

// Never returns: what the parent had open is not this process's to close.
[[noreturn]] void serve(const ClusterSize& size, const std::string& directory, int commands,
                        int answers) {
  ::signal(SIGPIPE, SIG_IGN);  // a watcher that has gone
  std::FILE* in = ::fdopen(commands, "r");
  std::FILE* out = ::fdopen(answers, "w");
  auto server = SyntheticApiServer::start(size, directory);
  if (!server) {
    std::cerr << server.error().text() << std::endl;
    ::_exit(1);
  }
  std::fputs(((*server)->kubeconfig() + '\n').c_str(), out);
  std::fflush(out);
  std::string command;
  for (int c = std::fgetc(in); c != EOF; c = std::fgetc(in)) {
    if (c != '\n') {
      command += static_cast<char>(c);
      continue;
    }
    std::fputs((execute(**server, command) + '\n').c_str(), out);
    std::fflush(out);
    command.clear();
  }
  ::_exit(0);
}

}  // namespace

Result<std::unique_ptr<ApiServerProcess>> ApiServerProcess::start(const ClusterSize& size,
                                                                  const std::string& directory) {
  int to_child[2];
  int from_child[2];
  if (::pipe2(to_child, O_CLOEXEC) != 0 || ::pipe2(from_child, O_CLOEXEC) != 0)
    return Error{ErrorCode::kInternal, "no pipe: too many open files"};
  std::unique_ptr<ApiServerProcess> server(new ApiServerProcess);
  server->pid_ = ::fork();
  if (server->pid_ == 0) {
    ::close(to_child[1]);
    ::close(from_child[0]);
    serve(size, directory, to_child[0], from_child[1]);
  }
  ::close(to_child[0]);
  ::close(from_child[1]);
  server->commands_ = ::fdopen(to_child[1], "w");
  server->answers_ = ::fdopen(from_child[0], "r");
  if (server->pid_ < 0) return Error{ErrorCode::kInternal, "the API server cannot be started"};
  OSM_TRY(server->kubeconfig_, server->ask(""));
  return server;
}

ApiServerProcess::~ApiServerProcess() {
  std::fclose(commands_);
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  std::fclose(answers_);
}

Status ApiServerProcess::happen(Happening what, int count) {
  OSM_TRY(const std::string answer,
          ask("happen " + std::to_string(static_cast<int>(what)) + ' ' + std::to_string(count)));
  return {};
}

Status ApiServerProcess::expire(std::size_t watches) {
  OSM_TRY(const std::string answer, ask("expire " + std::to_string(watches)));
  return {};
}

Result<ApiServerProcess::Parsing> ApiServerProcess::parse_everything() {
  OSM_TRY(const std::string answer, ask("parse"));
  std::istringstream words(answer);
  std::string ok;
  Parsing parsing;
  words >> ok >> parsing.cpu_seconds >> parsing.bytes >> parsing.pod_bytes;
  return parsing;
}

// An empty command is none: only what it says next is read.
Result<std::string> ApiServerProcess::ask(const std::string& command) {
  if (!command.empty() &&
      (std::fputs((command + '\n').c_str(), commands_) < 0 || std::fflush(commands_) != 0))
    return lost_server();
  std::string line;
  for (int c = std::fgetc(answers_); c != '\n'; c = std::fgetc(answers_)) {
    if (c == EOF) return lost_server();
    line += static_cast<char>(c);
  }
  return line;
}

}  // namespace osm::bench
