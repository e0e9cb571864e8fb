// One connection of the client, and the wire form of a request.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/wire.hpp"
#include "osm/net/http_client.hpp"

namespace osm::inline v1::net {

// Request line and headers for the server at `address`. Failure: kInvalidArgument for input that
// the server would read differently than its caller: line breaks, headers that frame the body.
Result<std::string> request_head(const HttpRequest& request, const Address& address);

// True if the request may be sent again when it is unknown if it arrived (RFC 9110, section 9.2.2).
bool is_idempotent(const std::string& method);

using ClientStrand = boost::asio::strand<boost::asio::io_context::executor_type>;

// Receives the response to a request. Thread: the client's strand.
class ResponseReceiver {
 public:
  virtual ~ResponseReceiver() = default;
  // Both return true to continue; if they return false, they have closed the connection, and
  // nothing more follows.
  virtual bool on_head(Response head, std::optional<std::uint64_t> content_length) = 0;
  virtual bool on_data(std::string_view data) = 0;
  // The last call. `untouched`: it failed before the first byte of a response.
  virtual void on_end(Status status, bool untouched) = 0;
};

// One connection of the client: it connects, then carries requests one after the other.
//
// It has no deadlines and no pool: its user closes it when it takes too long. Everything runs on
// the client's strand, and no callback runs inside the call that asked for it.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // Lifetime: the references belong to the client, which lives while callbacks may run.
  Connection(ClientStrand strand, const HttpClientOptions& options, tls::ClientContexts& contexts);
  ~Connection();

  void connect(std::function<void(Status)> done);
  // Sends a request; `receiver` is told of the response. Precondition: connected, and the previous
  // exchange has ended. `body` lives until on_end().
  void exchange(std::string head, std::string_view body, bool head_only,
                std::shared_ptr<ResponseReceiver> receiver);
  // Closes the connection; no callback runs any more.
  void close();

  bool is_connected() const { return connected_; }
  // True if it has carried an exchange before.
  bool is_used() const { return used_; }
  // True if it may carry another exchange: the last one ended well and the server has not closed
  // the connection since.
  bool is_reusable();
  // The step that connect() waits for, as text.
  std::string_view waits_for() const { return waits_for_; }

 private:
  using Parser = boost::beast::http::response_parser<boost::beast::http::buffer_body>;
  using ErrorCodeOf = boost::beast::error_code;

  Result<tls::Session> make_session();
  void look_up();
  void connect_to_one();  // of `endpoints_`, the first that accepts
  void on_tcp();
  void on_handshake(const ErrorCodeOf& error);
  void connected(Status status);

  void read_head();
  void on_head(const ErrorCodeOf& error);
  void read_body();
  void on_body(ErrorCodeOf error);
  void end(Status status, bool untouched);
  void forget();
  Status failed(const ErrorCodeOf& error);

  static constexpr std::uint32_t kMaxHead = 64 * 1024;
  static constexpr std::size_t kChunk = 64 * 1024;
  static constexpr int kMaxInterim = 16;

  const ClientStrand strand_;
  const HttpClientOptions& options_;
  tls::ClientContexts& contexts_;
  Wire wire_;
  std::vector<StreamProtocol::endpoint> endpoints_;
  std::function<void(Status)> on_connected_;
  std::string_view waits_for_ = "a name server";
  bool connected_ = false;
  bool closed_ = false;
  bool used_ = false;
  bool reusable_ = false;

  // The running operation holds the receiver, so that an ended event loop keeps no object alive.
  std::weak_ptr<ResponseReceiver> receiver_;
  std::string head_;
  bool head_only_ = false;
  int interim_ = 0;
  ErrorCodeOf write_error_;
  boost::beast::flat_buffer buffer_{kMaxHead + kChunk};
  std::optional<Parser> parser_;
  std::vector<char> chunk_;
};

}  // namespace osm::inline v1::net
