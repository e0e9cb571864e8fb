// The contract of spec::ObjectWriter that every implementation keeps.
#pragma once

#include <doctest/doctest.h>

#include <boost/json/serialize.hpp>
#include <string>

#include "base/json.hpp"
#include "osm/spec/kinds.hpp"
#include "osm/spec/object_writer.hpp"

namespace osm::inline v1::testing {

// `writer`: of a store without Denylists.
inline void check_writer_contract(spec::ObjectWriter& writer) {
  const auto denylist = [](const std::string& name, const std::string& reason,
                           const std::string& version = "") {
    const auto objects = spec::read_objects(
        "{apiVersion: workload.openservicemesh.io/v1alpha1, kind: Denylist, metadata: {name: " +
            name + ", namespace: osm-system" +
            (version.empty() ? "" : ", resourceVersion: '" + version + "'") +
            "}, spec: {serviceAccounts: [{namespace: shop, name: web}], reason: " + reason + "}}",
        "test");
    REQUIRE_MESSAGE(objects.ok(), objects.error().text());
    return *objects->front();
  };
  const auto key = [](const std::string& name) {
    return ObjectKey{kinds::kDenylist, "osm-system", name};
  };
  const auto read = [&](const std::string& name) {
    const auto stored = writer.read(key(name));
    REQUIRE_MESSAGE(stored.ok(), stored.error().text());
    return *stored;
  };
  const auto written = [&](const Object& object, const std::string& expected) {
    const auto version = writer.write(object, expected);
    REQUIRE_MESSAGE(version.ok(), version.error().text());
    REQUIRE_FALSE(version->empty());
    CHECK(read(object.key.name).version == *version);
    return *version;
  };
  const auto reason = [&](const std::string& name) {
    const auto stored = read(name);
    return stored.object ? text_at(map_at(*stored.object->document, "spec"), "reason") : "";
  };
  const auto conflicts = [](const auto& result) {
    return !result.ok() && result.error().code == ErrorCode::kConflict;
  };
  CHECK(read("one").version.empty());
  CHECK_FALSE(read("one").object);
  CHECK(conflicts(writer.remove(key("one"), "1")));

  const std::string first = written(denylist("one", "stolen"), "");
  CHECK(read("one").object->key == key("one"));
  CHECK(map_at(*read("one").object->document, "spec") ==
        map_at(*denylist("one", "stolen").document, "spec"));
  CHECK(conflicts(writer.write(denylist("one", "again"), "")));

  const std::string odd = R"("a \"lost\" \u202e laptop: yes # [")";
  const std::string second = written(denylist("one", odd, "7"), first);
  CHECK(second != first);
  CHECK(reason("one") == "a \"lost\" \xe2\x80\xae laptop: yes # [");
  CHECK(text_at(map_at(*read("one").object->document, "metadata"), "resourceVersion").empty());
  CHECK(conflicts(writer.write(denylist("one", "late"), first)));
  CHECK(conflicts(writer.remove(key("one"), first)));

  const std::string other = written(denylist("two", "lost"), "");
  CHECK(read("one").version == second);
  CHECK(writer.remove(key("one"), second).ok());
  CHECK(read("one").version.empty());
  CHECK(conflicts(writer.remove(key("one"), second)));
  CHECK(conflicts(writer.write(denylist("one", "gone"), second)));
  CHECK(reason("two") == "lost");
  CHECK(read("two").version == other);

  for (const ObjectKey& bad : {key("a/../b"), key("")}) {
    CAPTURE(bad.str());
    Object object = denylist("two", "bad");
    object.key = bad;
    CHECK(writer.read(bad).error().code == ErrorCode::kInvalidArgument);
    CHECK(writer.write(object, "").error().code == ErrorCode::kInvalidArgument);
    CHECK(writer.remove(bad, "1").error().code == ErrorCode::kInvalidArgument);
  }
}

}  // namespace osm::inline v1::testing
