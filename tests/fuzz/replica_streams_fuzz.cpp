// Texts of other replicas on the board of new streams: only a proxy that is connected here, whose
// address differs there, is reported, after it had the time to move. A replica that says nonsense
// hides no twin that another one has.
//
//   input: steps: '0' to '3' a proxy opens a stream here, '4' to '7' it ends, '8' a second
//   replica's text (a line), '9' a third one's, ':' half a minute passes, ';' the board is unknown
//   for a tick.
#include <array>
#include <map>

#include "ads/replica_streams.hpp"
#include "fuzz/fuzz.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

using ads::ReplicaStreams;
using model::ProxyKey;

struct Wall {
  std::map<std::string, std::string> said;
  bool known = true;
};

class WallBoard final : public ReplicaBoard {
 public:
  WallBoard(Wall& wall, std::string name) : wall_(wall), name_(std::move(name)) {}
  Status publish(const std::string& topic, std::string text) override {
    require(topic == ReplicaStreams::kTopic && text.size() <= 100'000, "a text fits on the board");
    wall_.said[name_] = std::move(text);
    return {};
  }
  Result<std::map<std::string, std::string>> read(const std::string&) const override {
    if (!wall_.known) return Error{ErrorCode::kUnavailable, "unknown"};
    return wall_.said;
  }
  Subscription subscribe(std::function<void()>) override { return {}; }
  bool leads() const override { return false; }
  Subscription stand(std::function<void()>) override { return {}; }

 private:
  Wall& wall_;
  const std::string name_;
};

ProxyKey key_of(std::size_t proxy) {
  return {"shop", ProxyId("11111111-1111-4111-8111-11111111111" + std::to_string(proxy))};
}

class World {
 public:
  void step(Choices& choices) {
    const std::size_t kind = choices.below(12);
    if (kind < 4) {
      here_.opened(key_of(kind), "10.0.0.7");
      opened_[key_of(kind)] = now_;
    } else if (kind < 8) {
      here_.closed(key_of(kind - 4));
      opened_.erase(key_of(kind - 4));
    } else if (kind == 8 || kind == 9) {
      wall_.said[kind == 8 ? "controller-b" : "controller-c"] = choices.line();
    } else if (kind == 10) {
      for (int i = 0; i < 30; ++i) tick();
    } else {
      wall_.known = false;
    }
    tick();
    wall_.known = true;
  }

  // A proxy is connected here and, from another address, at an honest replica.
  void finish() {
    Wall& wall = wall_;
    WallBoard board(wall, "controller-d");
    ReplicaStreams there(&board);
    const ProxyKey twin = key_of(9);
    here_.opened(twin, "10.0.0.7");
    opened_[twin] = now_;
    there.opened(twin, "10.0.0.8");
    bool told = false;
    for (int seconds = 0; seconds < 200; ++seconds) {
      there.tick(now_);
      for (const ReplicaStreams::Twin& one : tick()) told = told || one.proxy == twin;
    }
    require(told, "a proxy that is connected twice is reported");
  }

 private:
  std::vector<ReplicaStreams::Twin> tick() {
    now_ += std::chrono::seconds(1);
    auto twins = here_.tick(now_);
    for (const ReplicaStreams::Twin& twin : twins) {
      const auto opened = opened_.find(twin.proxy);
      require(opened != opened_.end(), "only a proxy that is connected here is reported");
      require(now_ - opened->second >= ReplicaStreams::kMove, "a proxy has time to move");
      require(twin.replica != "controller-a", "a replica is not its own twin", twin.replica);
    }
    return twins;
  }

  Wall wall_;
  WallBoard board_{wall_, "controller-a"};
  ReplicaStreams here_{&board_};
  SteadyTime now_{std::chrono::hours(1)};
  std::map<ProxyKey, SteadyTime> opened_;
};

void run(Choices choices) {
  World world;
  for (int steps = 0; steps < 100 && !choices.empty(); ++steps) world.step(choices);
  world.finish();
}

const bool kAdded = add("replica_streams", [](std::string_view input) { run(Choices(input)); });

}  // namespace
