// Boost.Asio as the library's Executor. The host owns the io_context and runs it on its threads.
//
// The host's Boost must be of the version that libosm was built with: both work on one io_context.
// With another version a program does not link: "undefined reference to BuiltWithBoost<...>". A
// host that makes no AsioExecutor itself (osm/runtime/threads.hpp does) may have any version, or
// none.
#pragma once

#if __has_include(<boost/version.hpp>)
#include <boost/version.hpp>
#endif

#include <chrono>
#include <functional>

#include "osm/detail/api.hpp"
#include "osm/executor.hpp"
#include "osm/runtime/fd_watcher.hpp"

namespace boost::asio {
class io_context;
}

namespace osm::inline v1::net {

// check() is defined for the version of Boost that libosm was built with, and for no other.
template <int kVersion>
struct OSM_API BuiltWithBoost {
  // Does nothing: a program that was built with another version does not link it.
  static void check();
};

// Lifetime: the borrowed io_context outlives this object and all its handles. A timer or watch with
// a live handle keeps the io_context from running out of work.
class OSM_API AsioExecutor final : public Executor, public FdWatcher {
 public:
  explicit AsioExecutor(boost::asio::io_context& context) : context_(context) {
#ifdef BOOST_VERSION  // absent where no Boost is, and so no io_context
    BuiltWithBoost<BOOST_VERSION>::check();
#endif
  }

  void post(std::function<void()> task) override;
  Subscription post_after(std::chrono::nanoseconds delay, std::function<void()> task) override;
  bool running_in_this_thread() const override;
  Subscription watch(int fd, std::function<void()> on_readable) override;

  // The borrowed io_context. Thread: any. Blocking: no.
  boost::asio::io_context& context() const { return context_; }

 private:
  boost::asio::io_context& context_;
};

}  // namespace osm::inline v1::net
