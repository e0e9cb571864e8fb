// etcd v3 as JSON over HTTP: https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/
#pragma once

#include <atomic>
#include <boost/json/object.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "osm/certificate/etcd_ca.hpp"
#include "osm/net/address.hpp"
#include "osm/net/http_client.hpp"
#include "osm/result.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1::etcd {

// Address of an etcd, in the form of its own tools: a URL of scheme, host and port.
struct Endpoint {
  std::string url;  // as errors name it: "https://10.0.0.1:2379"
  net::Address address;
  bool tls = true;
};

// A request to etcd: POST /v3/<path>.
struct Question {
  std::string_view path;
  const std::string& body;
  std::size_t max_answer = 1024 * 1024;  // bytes; a CA is some thousand
};

// An answer that is read as it arrives. Destroying it ends it, and no event is called any more.
struct Stream {
  std::unique_ptr<net::HttpClient> client{};
  Subscription call{};
};

// Events of a stream, in order, one at a time, on a thread of CaStoreOptions::io.
struct StreamEvents {
  std::function<void(std::string_view data)> on_data;
  std::function<void(Status)> on_end;  // the last event, once; a refusal is its failure
};

// Asks the endpoints in turn until one answers, from the one that answered last on. It keeps no
// connection between two calls, so that none is ever stale. It keeps the token of a user, because
// each login costs etcd some 100 ms of CPU time.
class Gateway {
 public:
  // Failure: as make_ca_store(). Blocking: reads files.
  static Result<std::unique_ptr<Gateway>> open(CaStoreOptions options);

  // "key /osm/ca of etcd (https://10.0.0.1:2379, ...)", for errors.
  std::string name_of(std::string_view key) const;

  // Sends POST /v3/<path>, passes the answer to `read`, and erases it afterwards. An endpoint whose
  // answer was lost may have executed `body`. `repeated`: true: there was an endpoint before the
  // last one.
  // Failure: kUnavailable (no endpoint answers; the message has each endpoint's reason),
  // kPermissionDenied, kInvalidArgument (the server is no etcd, or has no users), kUnreadableSource
  // (password), kNotFound (a lease), kGone (a revision that is compacted), kTooLarge (the answer).
  // Thread: any but an event loop's. Blocking: options.deadline for each endpoint.
  Status post(const Question& question, const std::function<Status(boost::json::object&)>& read,
              bool* repeated = nullptr) const;
  Status post(std::string_view path, const std::string& body,
              const std::function<Status(boost::json::object&)>& read) const {
    return post(Question{path, body}, read);
  }

  // The endpoints by number. Precondition: at < count().
  std::size_t count() const { return endpoints_.size(); }
  std::size_t answered() const { return answered_; }  // the endpoint that answered last
  const std::string& url_of(std::size_t at) const { return endpoints_[at].url; }
  // As post(), at one endpoint only.
  Status ask(std::size_t at, const Question& question,
             const std::function<Status(boost::json::object&)>& read) const;
  // Opens a stream at one endpoint. The endpoint ends it when it has no leader.
  // Failure: of the login, as post(); later ones are in `events`. Blocking: for the login.
  Result<Stream> open_stream(std::size_t at, const Question& question, StreamEvents events) const;
  // The next call logs in again.
  void forget_token() const;

 private:
  Gateway(CaStoreOptions options, std::vector<Endpoint> endpoints);

  Result<net::ClientTls> tls() const;
  std::unique_ptr<net::HttpClient> connect(const Endpoint& endpoint) const;
  net::HttpRequest request(const Question& question, const SecretBytes& token) const;
  Result<net::Response> send_as_user(net::HttpClient& client, const Endpoint& endpoint,
                                     const Question& question) const;
  SecretBytes known_token() const;
  Result<SecretBytes> log_in(net::HttpClient& client, const Endpoint& endpoint) const;
  Result<net::Response> send(net::HttpClient& client, const Endpoint& endpoint,
                             const Question& question, const SecretBytes& token) const;
  Error refusal(const Endpoint& endpoint, const net::Response& response) const;

  const CaStoreOptions options_;
  const std::vector<Endpoint> endpoints_;
  mutable std::atomic<std::size_t> answered_{0};  // the endpoint that answered last
  mutable std::mutex mutex_;                      // guards token_
  mutable SecretBytes token_;                     // valid at every endpoint; empty: log in
};

// The error for an answer that etcd's gateway would not give.
inline Error not_etcd() {
  return {ErrorCode::kInvalidSyntax, "the answer is not from etcd's JSON gateway"};
}

}  // namespace osm::inline v1::etcd
