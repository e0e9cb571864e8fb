#include "program.hpp"

#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace bookstore {

HostPort parse_host_port(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
    throw std::invalid_argument("'" + text + "' is not HOST:PORT");
  }
  return {text.substr(0, colon), text.substr(colon + 1)};
}

double wall_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

void write_file(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  std::ofstream(fresh) << text;
  std::rename(fresh.c_str(), path.c_str());
}

asio::awaitable<void> sleep_until(std::chrono::steady_clock::time_point when) {
  asio::steady_timer timer(co_await asio::this_coro::executor, when);
  co_await timer.async_wait(kUse);
}

}  // namespace bookstore
