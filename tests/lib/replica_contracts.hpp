// The contracts of TextRecord and ReplicaBoard that every implementation keeps.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "osm/runtime/replica_board.hpp"
#include "osm/runtime/text_record.hpp"

namespace osm::inline v1::testing {

// `open`: the same record, which is empty, for one more process.
inline void check_record_contract(const std::function<std::unique_ptr<TextRecord>()>& open) {
  const auto record = open(), other = open();
  const auto load = [](TextRecord& from) {
    const auto text = from.load();
    REQUIRE_MESSAGE(text.ok(), text.error().text());
    return *text;
  };
  const auto conflicts = [](TextRecord& with, const TextRecord::Text& text) {
    const Status stored = with.store(text);
    return !stored.ok() && stored.error().code == ErrorCode::kConflict;
  };
  CHECK_FALSE(record->name().empty());
  const TextRecord::Text none = load(*record);
  CHECK(none.text.empty());
  REQUIRE(record->store({"one", none.version}).ok());
  const TextRecord::Text one = load(*other);
  CHECK(one.text == "one");
  CHECK(conflicts(*other, {"another", none.version}));
  REQUIRE(other->store({"two", one.version}).ok());
  CHECK(conflicts(*record, {"three", one.version}));
  CHECK(load(*record).text == "two");
  const std::string large = std::string(90'000, 'x') + "\"\n\xc3\xa9";
  REQUIRE(record->store({large, load(*record).version}).ok());
  CHECK(load(*other).text == large);
}

// A replica leads only while it has a handle, its parts are told, and two never lead.
inline void check_leader_contract(ReplicaBoard& board, const std::function<void()>& pass,
                                  ReplicaBoard* other) {
  const auto leaders = [&] { return board.leads() + (other ? other->leads() : 0); };
  pass();
  CHECK(leaders() == 0);
  int begun = 0, begun_late = 0, begun_elsewhere = 0;
  Subscription first = board.stand([&] { ++begun; });
  pass();
  CHECK(board.leads());
  CHECK(begun == 1);
  Subscription silent = board.stand({});
  Subscription late = board.stand([&] { ++begun_late; });
  pass();
  CHECK(begun == 1);
  CHECK(begun_late == 1);
  Subscription elsewhere;
  if (other) {
    elsewhere = other->stand([&] { ++begun_elsewhere; });
    pass();
    CHECK(board.leads());
    CHECK(leaders() == 1);
    CHECK(begun_elsewhere == 0);
  }
  first.reset();
  late.reset();
  CHECK(board.leads());
  silent.reset();
  CHECK_FALSE(board.leads());  // at once
  pass();
  CHECK_FALSE(board.leads());
  if (other) {
    CHECK(other->leads());
    CHECK(begun_elsewhere == 1);
    first = board.stand([&] { ++begun; });
    pass();
    CHECK(other->leads());  // whoever comes later waits
    CHECK(leaders() == 1);
    elsewhere.reset();
    CHECK_FALSE(other->leads());
  } else {
    first = board.stand([&] { ++begun; });
  }
  pass();
  CHECK(board.leads());
  CHECK(begun == 2);
  first.reset();
  first = board.stand([&] { ++begun; });  // nobody else was faster
  pass();
  CHECK(board.leads());
  CHECK(begun == 3);
  first.reset();
  pass();
  CHECK(leaders() == 0);
  CHECK(begun_late == 1);
}

// `pass` lets the boards work until each knows what the others said, and has followed a leader that
// resigned. `other`: of another replica of
// the same mesh; null: there is none.
inline void check_board_contract(ReplicaBoard& board, const std::string& replica,
                                 const std::function<void()>& pass, ReplicaBoard* other = nullptr) {
  using Said = std::map<std::string, std::string>;
  const auto read = [](const ReplicaBoard& from, const std::string& topic) {
    const auto said = from.read(topic);
    REQUIRE_MESSAGE(said.ok(), said.error().text());
    return *said;
  };
  const std::size_t replicas = other ? 2 : 1;
  int heard = 0;
  const Subscription listening = board.subscribe([&] { ++heard; });
  CHECK(read(board, "contract").size() == replicas);
  CHECK(read(board, "contract").at(replica).empty());
  REQUIRE(board.publish("contract", "one \"\xc3\xa9\"").ok());
  CHECK(read(board, "contract").at(replica) == "one \"\xc3\xa9\"");
  pass();
  CHECK(heard > 0);
  CHECK(read(board, "other").at(replica).empty());

  const auto refused = [&](const std::string& topic, const std::string& text) {
    const Status published = board.publish(topic, text);
    return !published.ok() && published.error().code == ErrorCode::kInvalidArgument;
  };
  CHECK(refused("contract", std::string(100'001, 'x')));
  CHECK(refused("no/topic", ""));
  CHECK(refused("contract", "\xff"));
  CHECK(read(board, "contract").at(replica) == "one \"\xc3\xa9\"");

  const std::string large(100'000, '"');
  for (const char* topic : {"large", "larger"}) REQUIRE(board.publish(topic, large).ok());
  CHECK(refused("third", std::string(60'000, 'x')));
  pass();
  check_leader_contract(board, pass, other);
  if (!other) return;
  CHECK(read(*other, "contract").at(replica) == "one \"\xc3\xa9\"");
  CHECK(read(*other, "larger").at(replica) == large);
  heard = 0;
  REQUIRE(other->publish("contract", "two").ok());
  pass();
  CHECK(heard > 0);
  Said mine = read(board, "contract");
  CHECK(mine == read(*other, "contract"));
  mine.erase(replica);
  REQUIRE(mine.size() == 1);
  CHECK(mine.begin()->second == "two");
}

}  // namespace osm::inline v1::testing
