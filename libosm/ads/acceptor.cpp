#include "ads/acceptor.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "ads/connection_table.hpp"
#include "base/descriptor.hpp"
#include "base/log_limit.hpp"
#include "base/numbers.hpp"
#include "base/rate_limit.hpp"

namespace osm::inline v1::ads {
namespace {

constexpr Counter kAdsConnectionBoundsMet{
    "osm_ads_connection_bounds_met_total",
    "Times that connections to the ADS port met a bound, by bound",
    {"bound"}};

constexpr std::chrono::milliseconds kRetry{50};  // after a failed accept, and while a bound is met
constexpr std::chrono::milliseconds kBeat{1000};
constexpr std::chrono::seconds kHangs{10};   // without a beat for so long, the thread hangs
constexpr std::chrono::seconds kFailing{2};  // a shorter failure is no matter for readiness

std::string text_of(int error) { return std::generic_category().message(error); }

struct HostPort {
  std::string host;
  std::string port;
};

Result<HostPort> split(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon == std::string::npos ? 0 : colon);
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  if (host.empty() || !number_of<std::uint16_t>(port))
    return Error{ErrorCode::kInvalidArgument,
                 "ADS address \"" + address + "\": write HOST:PORT, such as 0.0.0.0:15128"};
  return HostPort{std::move(host), port};
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> resolve(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int fault = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); fault != 0)
    return Error{
        ErrorCode::kInvalidArgument,
        "ADS cannot listen on " + host + ": the host is unknown: " + ::gai_strerror(fault)};
  return Addresses(found, &::freeaddrinfo);
}

Error cannot_listen(const std::string& address, int fault) {
  return {fault == EADDRNOTAVAIL ? ErrorCode::kInvalidArgument : ErrorCode::kUnavailable,
          "ADS cannot listen on " + address + ": " + text_of(fault) +
              (fault == EADDRINUSE ? "; stop the other process or choose another port" : "")};
}

// Failure: nullopt, and errno says why.
std::optional<Descriptor> open_socket(int family, const sockaddr* at, socklen_t size) {
  Descriptor opened(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!opened) return std::nullopt;
  const int on = 1, off = 0;
  // A restart does not wait until old connections have left TIME_WAIT.
  ::setsockopt(opened.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) ::setsockopt(opened.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(opened.get(), at, size) != 0 || ::listen(opened.get(), SOMAXCONN) != 0)
    return std::nullopt;
  return opened;
}

Result<Descriptor> open_listener(const std::string& address, const HostPort& at) {
  if (at.host == "0.0.0.0" || at.host == "::") {
    sockaddr_in6 any{};  // is in6addr_any
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(*number_of<std::uint16_t>(at.port));
    if (auto opened = open_socket(AF_INET6, reinterpret_cast<const sockaddr*>(&any), sizeof any))
      return *std::move(opened);
    // A machine without IPv6 goes on with IPv4.
    if (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL) return cannot_listen(address, errno);
  }
  OSM_TRY(const Addresses found, resolve(at.host == "::" ? "0.0.0.0" : at.host, at.port));
  if (auto opened = open_socket(found->ai_family, found->ai_addr, found->ai_addrlen))
    return *std::move(opened);
  return cannot_listen(address, errno);
}

std::uint16_t port_of_socket(int socket) {
  sockaddr_in6 bound{};  // the port of IPv4 is at the same place
  socklen_t size = sizeof bound;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.sin6_port);
}

class Impl final : public Acceptor {
 public:
  Impl(AcceptorOptions options, Descriptor listener, Descriptor wake, const std::string& host)
      : options_(std::move(options)),
        listener_(std::move(listener)),
        wake_(std::move(wake)),
        address_(host + ':' + std::to_string(port_of_socket(listener_.get()))),
        rate_(
            options_.runtime.clock, static_cast<double>(options_.limits.accepts_per_second),
            std::chrono::nanoseconds(std::chrono::seconds(1)) / options_.limits.accepts_per_second),
        beat_(now()),
        said_(options_.runtime.clock) {
    for (const char* bound : {"connections", "unverified", "unverified-per-address"})
      count(bound, 0);  // an alert sees the first increase of a counter that begins at 0
  }

  ~Impl() override { stop(); }

  void stop() override {
    if (!thread_.joinable()) return;
    ::eventfd_write(wake_.get(), 1);  // cannot fail: the counter is 0
    thread_.join();
    listener_ = Descriptor();
  }

  void run() override {
    thread_ = std::thread([this] { serve(); });
  }

  std::string address() const override { return address_; }

  void verified(const std::string& remote) override {
    const std::lock_guard lock(mutex_);
    table_.verify(remote);
  }

  Status health() const override {
    const std::lock_guard lock(mutex_);
    std::string why;
    if (failing_since_ && now() - *failing_since_ >= kFailing) why = failure_;
    if (now() - beat_ >= kHangs) why = "its thread hangs";
    if (why.empty()) return {};
    return Error{ErrorCode::kUnavailable, "no connection is accepted on " + address_ + ": " + why};
  }

 private:
  SteadyTime now() const { return options_.runtime.clock.steady_now(); }

  void serve() {
    ::pthread_setname_np(::pthread_self(), "osm-ads-accept");
    for (std::chrono::milliseconds pause(0);;) {
      std::array<pollfd, 2> waits{pollfd{wake_.get(), POLLIN, 0},
                                  pollfd{listener_.get(), POLLIN, 0}};
      // During a pause the listener is not asked: its waiting connections would end the wait.
      const bool asks = pause == pause.zero();
      static_cast<void>(
          ::poll(waits.data(), asks ? 2 : 1, static_cast<int>((asks ? kBeat : pause).count())));
      if (waits[0].revents != 0) return;
      {
        const std::lock_guard lock(mutex_);
        beat_ = now();
      }
      pause = accept_waiting();
    }
  }

  // Result: the pause before the next attempt; zero: until the next connection arrives.
  std::chrono::milliseconds accept_waiting() {
    while (one_waits()) {
      if (is_full()) return kRetry;
      if (const auto wait = rate_.wait(); wait > wait.zero())
        return std::chrono::duration_cast<std::chrono::milliseconds>(wait) +
               std::chrono::milliseconds(1);
      const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) {
        if (errno == EAGAIN) break;
        // The client has left, or its packet was refused: the next one may be well.
        if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO || errno == EPERM) continue;
        note(errno);
        return kRetry;
      }
      note(0);
      static_cast<void>(rate_.take());
      admit(Descriptor(fd));
    }
    note(0);
    return std::chrono::milliseconds(0);
  }

  bool one_waits() const {
    pollfd asked{listener_.get(), POLLIN, 0};
    return ::poll(&asked, 1, 0) == 1;
  }

  void admit(Descriptor connection) {
    const RemoteAddress remote = remote_address(connection.get());
    if (remote.host.empty()) return;  // it has left
    const std::size_t bound = options_.limits.unverified_per_address;
    {
      const std::lock_guard lock(mutex_);
      if (bound != 0 && table_.unverified_of(remote.host) >= bound) forget_closed();
      if (bound != 0 && table_.unverified_of(remote.host) >= bound)
        return meets("unverified-per-address", remote.host);
      table_.add(connection.get(), remote);
    }
    const int on = 1;
    ::setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    options_.hand_over(listener_.get(), connection.release());
  }

  // A bound of all connections is met: the next ones wait in the kernel's queue.
  bool is_full() {
    const std::lock_guard lock(mutex_);
    for (const bool asked_kernel : {false, true}) {
      const char* const bound = table_.size() >= most()                             ? "connections"
                                : table_.unverified() >= options_.limits.unverified ? "unverified"
                                                                                    : nullptr;
      if (!bound) return false;
      if (asked_kernel)
        meets(bound);
      else
        forget_closed();
    }
    return true;
  }

  std::size_t most() const {
    rlimit descriptors{};
    ::getrlimit(RLIMIT_NOFILE, &descriptors);
    const std::size_t all = descriptors.rlim_cur;
    const std::size_t bound = all - std::min(options_.limits.reserved_descriptors, all / 2);
    const std::size_t asked = options_.limits.connections;
    return asked == 0 ? bound : std::min(asked, bound);
  }

  // Precondition of the next three: mutex_ held, but for note().
  void forget_closed() {
    if (now() - forgot_ < kRetry) return;  // so that a flood does not make it ask all the time
    forgot_ = now();
    table_.forget_closed();
  }

  void meets(const std::string& bound, const std::string& host = "") {
    count(bound, 1);
    say("connections to the ADS port meet a bound",
        {"bound", host.empty() ? bound : bound + " of " + host});
  }

  void count(std::string_view bound, double met) {
    options_.runtime.metrics.add(kAdsConnectionBoundsMet, {{"bound", bound}}, met);
  }

  void note(int fault) {
    const std::lock_guard lock(mutex_);
    if (fault == 0) return failing_since_.reset();
    if (!failing_since_) failing_since_ = now();
    failure_ = text_of(fault);
    say("cannot accept a connection to the ADS port", {"error", failure_});
  }

  void say(std::string_view message, LogField field) {
    if (const auto left_out = said_.admit())
      options_.runtime.log.warning(message, {{"address", address_},
                                             {field.key, std::move(field.value)},
                                             {"left_out", std::to_string(*left_out)}});
  }

  const AcceptorOptions options_;
  Descriptor listener_;
  const Descriptor wake_;
  const std::string address_;
  RateLimit rate_;  // the thread's

  mutable std::mutex mutex_;
  ConnectionTable table_;
  SteadyTime beat_;
  SteadyTime forgot_{};
  std::optional<SteadyTime> failing_since_;
  std::string failure_;
  LogLimit said_;

  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::listen(AcceptorOptions options) {
  if (options.limits.unverified == 0 || options.limits.accepts_per_second == 0)
    return Error{ErrorCode::kInvalidArgument,
                 "ads_connections: unverified and accepts_per_second must be at least 1, since no "
                 "proxy could connect"};
  OSM_TRY(const HostPort at, split(options.address));
  OSM_TRY(Descriptor listener, open_listener(options.address, at));
  Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return cannot_listen(options.address, errno);
  const std::string host = options.address.substr(0, options.address.rfind(':'));
  return std::unique_ptr<Acceptor>(
      std::make_unique<Impl>(std::move(options), std::move(listener), std::move(wake), host));
}

}  // namespace osm::inline v1::ads
