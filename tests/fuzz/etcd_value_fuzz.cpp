// Values of an etcd, or of something else on its port: a CA is taken exactly or refused in words
// that do not quote it, and "there is none" is believed only if the answer is an etcd's.
//
//   input: a line: the answer's HTTP status; then its body.
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <charconv>
#include <mutex>
#include <thread>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/quiet.hpp"
#include "osm/certificate/etcd_ca.hpp"
#include "osm/net/http_server.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace json = boost::json;

// A server with one answer, and the store that asks it. Lives until the process ends.
class World {
 public:
  World() {
    const auto answer = [this](const net::Request&) {
      const std::lock_guard lock(mutex_);
      return answer_;
    };
    auto server =
        net::HttpServer::start({.listen = {"127.0.0.1", 0}}, io_, blocking_, answer, log_);
    require(server.ok(), "a server starts", server.ok() ? "" : server.error().text());
    server_ = *std::move(server);
    auto made = etcd::make_ca_store(
        {.endpoints = {"http://" + server_->address().str()}, .io = io_, .blocking = blocking_});
    require(made.ok(), "a store is made", made.ok() ? "" : made.error().text());
    store_ = *std::move(made);
  }

  certificate::CaStore& answering(net::Response response) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(response);
    return *store_;
  }

 private:
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      boost::asio::make_work_guard(context_)};
  std::thread thread_{[this] { context_.run(); }};
  net::AsioExecutor io_{context_};
  testing::ThreadExecutor blocking_{1};
  QuietLog log_;
  std::mutex mutex_;
  net::Response answer_;  // guarded by mutex_
  std::unique_ptr<net::HttpServer> server_;
  std::unique_ptr<certificate::CaStore> store_;
};

void run(Choices choices) {
  static World& world = *new World;
  const std::string status_line = choices.line(8);
  int status = 200;
  std::from_chars(status_line.data(), status_line.data() + status_line.size(), status);
  if (status < 200 || status > 599) return;
  const std::string body(choices.rest());
  certificate::CaStore& store = world.answering(net::json_response(body, status));

  const auto pem = store.load();
  const json::object answer = parse_json_object(body, "").value_or({});
  const json::array& pairs = list_at(answer, "kvs");
  const std::string value = pairs.empty() ? "" : text_at(pairs.front(), "value");
  if (!pem.ok()) {
    require(pem.error().message.size() < 2000, "a refusal is bounded", pem.error().message);
    require(
        status >= 300 || value.size() < 24 || pem.error().message.find(value) == std::string::npos,
        "a refusal does not quote", pem.error().message);
    return;
  }
  require(status < 300, "only a success is an answer");
  require(pem->has_value() == !pairs.empty(), "there is a CA if the answer has one", body);
  require(!*pem || base64((*pem)->pem()) == value, "a CA is taken exactly", body);
}

const bool kAdded = add("etcd_value", [](std::string_view input) { run(Choices(input)); });

}  // namespace
