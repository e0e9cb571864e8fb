// Typed access to JSON. Callers ask for every field by name and type. All faults of an object are
// collected, each with its field's path.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "osm/ids.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::spec {

// Limits on the cost of one object (docs/adr/0019). A longer list or map is refused.
inline constexpr std::size_t kMaxEntries = 1024;
// Problems beyond this number are not listed one by one.
inline constexpr std::size_t kMaxProblemsPerObject = 100;
inline constexpr std::size_t kMaxFieldBytes =
    512;  // limit of a problem's field; keys are part of it

// "a, b, c"
std::string joined(std::span<const std::string_view> words);

// Faults that a decoder found in one object. Lines are added when problems are listed: they move
// when the file is edited elsewhere.
class Findings {
 public:
  // Reports a fault that makes the object invalid; it will be left out.
  void refuse(std::string field, std::string cause, ErrorCode code = ErrorCode::kInvalidField);
  // Reports that a part of the object has no effect; the rest is used.
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

  // Null counts as absent, as in Kubernetes.
  bool present() const { return value_ != nullptr && !value_->is_null(); }
  const std::string& path() const { return path_; }
  const boost::json::value* value() const { return value_; }

  // A member of a map; absent if this is absent or no map.
  Field operator[](std::string_view name) const;

  // Each of these returns nothing for a value of another type, or longer than kMaxEntries, and
  // refuses it.
  std::optional<std::string> text() const;
  std::optional<bool> boolean() const;
  std::optional<std::int64_t> integer(std::int64_t least, std::int64_t most) const;
  std::vector<Field> list() const;                             // absent: empty
  std::vector<std::pair<std::string, Field>> members() const;  // absent: empty
  std::map<std::string, std::string> text_map() const;
  std::vector<std::string> text_list() const;

  // As text(), but refuses absence and "" too.
  std::string required_text() const;
  // Refuses absence and anything but a map, and members that are not in `names` (empty: any): a
  // mistyped field must not widen a policy unnoticed. Result: true for a map.
  bool required_map(std::initializer_list<std::string_view> names = {}) const;
  // As required_map(), but absence is no fault.
  bool optional_map(std::initializer_list<std::string_view> names = {}) const {
    return present() && required_map(names);
  }
  std::optional<Port> port() const;
  std::vector<Port> ports() const;  // of a list: ordered, unique

  // Refuses absence. Result: itself, to be read by the functions above.
  const Field& required() const;

  void refuse(std::string cause, ErrorCode code = ErrorCode::kInvalidField) const;
  void note(std::string cause, ErrorCode code = ErrorCode::kUnusedField) const;

 private:
  const boost::json::value* value_;
  std::string path_;
  Findings* findings_;
};

}  // namespace osm::inline v1::spec
