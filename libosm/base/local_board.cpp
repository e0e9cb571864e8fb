#include <mutex>
#include <utility>

#include "base/board_text.hpp"
#include "base/maps.hpp"
#include "base/stands.hpp"
#include "base/strand.hpp"
#include "osm/notifier.hpp"
#include "osm/runtime/replica_board.hpp"

namespace osm::inline v1 {
namespace {

class LocalBoard final : public ReplicaBoard {
 public:
  LocalBoard(std::string replica, Executor& executor)
      : replica_(std::move(replica)), strand_(executor) {}
  ~LocalBoard() override { strand_.stop(); }

  Status publish(const std::string& topic, std::string text) override {
    {
      std::lock_guard lock(mutex_);
      OSM_TRY(const bool differs, set_board_text(topics_, topic, std::move(text)));
      if (!differs) return {};
    }
    strand_.post([this] { changed_.notify(); });
    return {};
  }

  Result<std::map<std::string, std::string>> read(const std::string& topic) const override {
    std::lock_guard lock(mutex_);
    return std::map<std::string, std::string>{{replica_, value_in(topics_, topic)}};
  }

  Subscription subscribe(std::function<void()> on_change) override {
    return changed_.subscribe(std::move(on_change));
  }

  bool leads() const override { return stands_.any(); }

  Subscription stand(std::function<void()> on_begin) override {
    return stands_.add(std::move(on_begin));
  }

 private:
  const std::string replica_;
  mutable std::mutex mutex_;  // over `topics_`
  std::map<std::string, std::string> topics_;
  Notifier<> changed_;
  Strand strand_;
  Stands stands_{strand_, [] { return true; }};  // each handle's first call comes while it lives
};

}  // namespace

std::unique_ptr<ReplicaBoard> make_local_board(std::string replica, Executor& executor) {
  return std::make_unique<LocalBoard>(std::move(replica), executor);
}

}  // namespace osm::inline v1
