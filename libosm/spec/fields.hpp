// Reading JSON with manners: every field is asked for by name and type, and everything wrong with
// an object is collected, each fault with its field's path.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "osm/object.hpp"

namespace osm::inline v1::spec {

// Bounds on what one object may cost the mesh (docs/adr/0019). A list or map that is longer is
// refused.
inline constexpr std::size_t kMaxEntries = 1024;
// What is wrong beyond so many is not listed one by one.
inline constexpr std::size_t kMaxProblemsPerObject = 100;
inline constexpr std::size_t kMaxFieldBytes = 512;  // of a problem's field; keys are part of it

// What a decoder found wrong with one object. The lines are added when problems are listed: they
// move when a file is edited elsewhere.
class Findings {
 public:
  // The object is invalid and will be left out.
  void refuse(std::string field, std::string cause, ErrorCode code = ErrorCode::kInvalidField);
  // Part of the object has no effect; the rest stands.
  void note(std::string field, std::string cause, ErrorCode code = ErrorCode::kUnusedField);

  bool valid() const { return valid_; }
  std::vector<Problem> take(const ObjectKey& object) &&;

 private:
  void add(ErrorCode code, std::string field, std::string cause);

  bool valid_ = true;
  std::vector<Problem> problems_;
};

// One JSON value and its path; possibly absent. Borrows both the value and the findings.
class Field {
 public:
  Field(const boost::json::value* value, std::string path, Findings& findings)
      : value_(value), path_(std::move(path)), findings_(&findings) {}

  // Null counts as absent, as it does to Kubernetes.
  bool present() const { return value_ != nullptr && !value_->is_null(); }
  const std::string& path() const { return path_; }
  const boost::json::value* value() const { return value_; }

  // A member of a map; absent when this is absent or no map.
  Field operator[](std::string_view name) const;

  // Each of these refuses what is there but of another type, or longer than kMaxEntries, and
  // returns nothing then.
  std::optional<std::string> text() const;
  std::optional<bool> boolean() const;
  std::optional<std::int64_t> integer(std::int64_t least, std::int64_t most) const;
  std::vector<Field> list() const;                             // absent: empty
  std::vector<std::pair<std::string, Field>> members() const;  // absent: empty
  std::map<std::string, std::string> text_map() const;
  std::vector<std::string> text_list() const;

  // As text(), but refuses absence and "" too.
  std::string required_text() const;
  // As list(), but refuses absence.
  std::vector<Field> required_list() const;
  // Refuses absence and anything but a map.
  bool required_map() const;

  // Refuses members that are not among these: a mistyped field must not widen a policy in silence.
  void only(std::initializer_list<std::string_view> names) const;

  void refuse(std::string cause, ErrorCode code = ErrorCode::kInvalidField) const;
  void note(std::string cause, ErrorCode code = ErrorCode::kUnusedField) const;

 private:
  const boost::json::value* value_;
  std::string path_;
  Findings* findings_;
};

}  // namespace osm::inline v1::spec
