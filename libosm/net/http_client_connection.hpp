// One connection of the client: it connects, then carries one request after the other.
//
// No deadlines, no pool: whoever holds it closes it when it takes too long. Everything runs on the
// client's strand, and a callback is never called inside the call that asked for it.
#pragma once

#include <array>
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

using ClientStrand = boost::asio::strand<boost::asio::io_context::executor_type>;

// Reads one response. The first two say whether to go on; if not, the connection has been closed
// by then and nothing more comes.
class ResponseReceiver {
 public:
  virtual ~ResponseReceiver() = default;
  virtual bool on_head(Response head, std::optional<std::uint64_t> content_length) = 0;
  virtual bool on_data(std::string_view data) = 0;
  // Last. `untouched`: it failed before a byte of a response came.
  virtual void on_end(Status status, bool untouched) = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // The references are the client's, which lives while callbacks may come.
  Connection(ClientStrand strand, const HttpClientOptions& options, tls::ClientContexts& contexts);

  void connect(std::function<void(Status)> done);
  // Precondition: connected, the exchange before it has ended. `body` lives until on_end().
  void exchange(std::string head, std::string_view body, bool head_only,
                std::shared_ptr<ResponseReceiver> receiver);
  // No callback comes any more.
  void close();

  bool is_connected() const { return connected_; }
  // Whether it has carried an exchange before.
  bool is_used() const { return used_; }
  // Whether it may carry another one: the last ended well and the server has not closed it since.
  bool is_reusable();
  // What connect() waits for, in words.
  std::string_view waits_for() const { return waits_for_; }

 private:
  using Parser = boost::beast::http::response_parser<boost::beast::http::buffer_body>;
  using ErrorCodeOf = boost::beast::error_code;

  Result<tls::Session> make_session();
  void look_up();
  void connect_to(std::size_t index, const ErrorCodeOf& last);
  void on_tcp();
  void on_handshake(const ErrorCodeOf& error);
  void connected(Status status);

  void read_head();
  void on_head(const ErrorCodeOf& error);
  void read_body();
  void on_body(ErrorCodeOf error);
  void end(Status status, bool untouched);
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

  // Kept by the operation under way, so that one whose event loop has ended keeps nobody.
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
