// The contract of TextRecord that every implementation keeps.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>

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

}  // namespace osm::inline v1::testing
