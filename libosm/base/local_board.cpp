#include <mutex>
#include <utility>

#include "base/board_text.hpp"
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
      OSM_TRY(check_board_text(topics_, topic, text));
      const auto [at, fresh] = topics_.try_emplace(topic);
      if (!fresh && at->second == text) return {};
      at->second = std::move(text);
    }
    strand_.post([this] { changed_.notify(); });
    return {};
  }

  Result<std::map<std::string, std::string>> read(const std::string& topic) const override {
    std::lock_guard lock(mutex_);
    const auto at = topics_.find(topic);
    return std::map<std::string, std::string>{
        {replica_, at == topics_.end() ? std::string() : at->second}};
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
