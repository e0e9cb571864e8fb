#include "server_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json.hpp>

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace osm::bench {
namespace {

Error lost_server() {
  return {ErrorCode::kUnavailable,
          "the server under measurement ended early; its own message stands above"};
}

// Result: the object of one answer; its "error" as an Error.
Result<boost::json::object> parse_answer(const std::string& line) {
  boost::json::error_code error;
  boost::json::value value = boost::json::parse(line, error);
  if (error || !value.is_object()) return Error{ErrorCode::kInternal, "not an answer: " + line};
  if (const auto* text = value.as_object().if_contains("error"))
    return Error{ErrorCode::kInternal, std::string(text->as_string())};
  return std::move(value.as_object());
}

}  // namespace

double ServerStatus::sum(const std::string& metric) const {
  double total = 0;
  for (const auto& [name, value] : metrics)
    if (name == metric || name.starts_with(metric + "{")) total += value;
  return total;
}

Result<std::unique_ptr<ServerProcess>> ServerProcess::start(
    const std::vector<std::string>& arguments) {
  int to_child[2], from_child[2];
  if (pipe2(to_child, O_CLOEXEC) != 0 || pipe2(from_child, O_CLOEXEC) != 0)
    return Error{ErrorCode::kInternal, "no pipe: too many open files"};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_child[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from_child[1], STDOUT_FILENO);
  std::string program = "mesh_bench";
  std::vector<char*> argv{program.data()};
  std::vector<std::string> copies = arguments;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);

  std::unique_ptr<ServerProcess> server(new ServerProcess);
  const int failed =
      posix_spawn(&server->pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to_child[0]);
  close(from_child[1]);
  server->commands_ = fdopen(to_child[1], "w");
  server->answers_ = fdopen(from_child[0], "r");
  if (failed != 0) {
    server->pid_ = -1;
    return Error{ErrorCode::kInternal, "the server process cannot be started"};
  }
  OSM_TRY(const std::string line, server->read_line());
  OSM_TRY(const boost::json::object hello, parse_answer(line));
  server->address_ = hello.at("address").as_string();
  return server;
}

ServerProcess::~ServerProcess() {
  std::fclose(commands_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  std::fclose(answers_);
}

Result<std::string> ServerProcess::read_line() {
  std::string line;
  for (int c = std::fgetc(answers_); c != '\n'; c = std::fgetc(answers_)) {
    if (c == EOF) return lost_server();
    line += static_cast<char>(c);
  }
  return line;
}

Result<std::string> ServerProcess::ask(const std::string& command) {
  if (std::fputs((command + "\n").c_str(), commands_) < 0 || std::fflush(commands_) != 0)
    return lost_server();
  return read_line();
}

Result<ServerStatus> ServerProcess::status() {
  OSM_TRY(const std::string line, ask("status"));
  OSM_TRY(const boost::json::object answer, parse_answer(line));
  ServerStatus status{.cpu_seconds = answer.at("cpu_seconds").to_number<double>(),
                      .resident_bytes = answer.at("resident_bytes").to_number<std::uint64_t>(),
                      .metrics = {}};
  for (const auto& [name, value] : answer.at("metrics").as_object())
    status.metrics[std::string(name)] = value.to_number<double>();
  return status;
}

Status ServerProcess::change(Change change) {
  OSM_TRY(const std::string line, ask("change " + change_text(change)));
  auto answer = parse_answer(line);
  if (!answer) return answer.error();
  return {};
}

}  // namespace osm::bench
