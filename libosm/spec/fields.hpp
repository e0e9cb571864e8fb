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
#include <tuple>
#include <type_traits>
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
  // Reports a fault that makes the object invalid, or the innermost Element that is being read: it
  // will be left out.
  void refuse(std::string field, std::string cause, ErrorCode code = ErrorCode::kInvalidField);
  // Reports a fault that makes the object invalid, also while an Element is being read.
  void refuse_object(std::string field, std::string cause, ErrorCode code);
  // Reports that a part of the object has no effect; the rest is used.
  void note(std::string field, std::string cause, ErrorCode code = ErrorCode::kUnusedField);

  // While it lives, one element of the object is being read, or of another element. A decoder reads
  // a part as an element only if the object allows less without it; a Denylist, if it denies more
  // than no Denylist does.
  class Element {
   public:
    // `what`: "match"; a constant.
    Element(Findings& findings, std::string_view what);
    ~Element();
    Element(const Element&) = delete;
    Element& operator=(const Element&) = delete;

    bool valid() const { return findings_.valid(); }

   private:
    Findings& findings_;
    const bool outer_valid_;
    const std::string_view outer_what_;
    const std::size_t first_;  // of its faults
  };

  // False if the object, or the innermost Element that is being read, is invalid.
  bool valid() const { return valid_ && !object_refused_; }
  // If the object is valid, the causes of faults of elements end with "; only this match is left
  // out of a stored object".
  std::vector<Problem> take(const ObjectKey& object) &&;

 private:
  struct Found {
    Problem problem;
    std::string_view left_out;  // "match"; empty: the object, or nothing
  };

  void add(ErrorCode code, std::string field, std::string cause, std::string_view left_out);

  bool valid_ = true;
  bool object_refused_ = false;
  std::string_view what_;  // of the innermost Element; empty: there is none
  std::vector<Found> found_;
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

  // Each of these returns nothing for a value of another type, and refuses it. If the value is
  // longer than kMaxEntries, they refuse the object.
  std::optional<std::string> text() const;
  std::optional<bool> boolean() const;
  std::optional<std::int64_t> integer(std::int64_t least, std::int64_t most) const;
  std::vector<Field> list() const;                             // absent: empty
  std::vector<std::pair<std::string, Field>> members() const;  // absent: empty
  std::map<std::string, std::string> text_map() const;

  // As text(), but refuses absence and "" too.
  std::string required_text() const;
  // Refuses absence and anything but a map, and members that are not in `names`: a mistyped field
  // must not widen a policy unnoticed. Result: true for a map, and its members in the order of
  // `names`. Without a map they are absent, so a caller that requires none need not ask for it.
  //   const auto [map, number, protocol] = field.required_map("number", "protocol");
  template <class... Names>
    requires(sizeof...(Names) > 0)
  auto required_map(const Names&... names) const {
    return std::tuple(required_map({std::string_view(names)...}), (*this)[names]...);
  }
  // As required_map(), but absence is no fault.
  template <class... Names>
    requires(sizeof...(Names) > 0)
  auto optional_map(const Names&... names) const {
    return std::tuple(present() && required_map({std::string_view(names)...}), (*this)[names]...);
  }
  // The check alone, for a map whose member is chosen later. Empty `names`: any.
  bool required_map(std::initializer_list<std::string_view> names = {}) const;
  std::optional<Port> port() const;
  std::optional<Port> listed_port() const;  // as port(), but refuses absence
  std::vector<Port> ports() const;          // of a list: ordered, unique

  // Refuses absence. Result: itself, to be read by the functions above.
  const Field& required() const;

  // The result of `read(*this)`. Faults that it refuses leave out this element, and not the object.
  // Result: nullopt if there are any. `what`: see Findings::Element.
  template <class Read>
  auto element(std::string_view what, Read read) const
      -> std::optional<std::invoke_result_t<Read, const Field&>> {
    const Findings::Element element(*findings_, what);
    auto value = read(*this);
    return element.valid() ? std::optional(std::move(value)) : std::nullopt;
  }
  // The valid elements of a list.
  template <class Read>
  auto elements(std::string_view what, Read read) const
      -> std::vector<std::invoke_result_t<Read, const Field&>> {
    std::vector<std::invoke_result_t<Read, const Field&>> out;
    for (const Field& item : list())
      if (auto value = item.element(what, read)) out.push_back(*std::move(value));
    return out;
  }

  void refuse(std::string cause, ErrorCode code = ErrorCode::kInvalidField) const;
  void refuse_object(std::string cause, ErrorCode code) const;
  // As refuse(), of an element that is otherwise read: `what` is left out.
  void leave_out(std::string_view what, std::string cause) const;
  void note(std::string cause, ErrorCode code = ErrorCode::kUnusedField) const;

 private:
  const boost::json::value* value_;
  std::string path_;
  Findings* findings_;
};

}  // namespace osm::inline v1::spec
