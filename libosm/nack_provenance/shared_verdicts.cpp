#include "nack_provenance/shared_verdicts.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <string_view>

namespace osm::inline v1::nack_provenance {
namespace {

namespace json = boost::json;

constexpr const char* kTopic = "refused";

std::string text_of(const json::object& from, std::string_view field) {
  const json::value* found = from.if_contains(field);
  return found && found->is_string() ? std::string(found->get_string()) : "";
}

// Bytes that are no UTF-8 would make the board refuse the text.
std::string printable(std::string text) {
  text.resize(std::min(text.size(), SharedVerdicts::kTextBytes));
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

}  // namespace

void SharedVerdicts::share(const ObjectKey& object, const std::string& evidence) {
  if (board_ == nullptr) return;
  std::erase_if(own_, [&](const auto& one) { return one.first == object; });
  own_.emplace_back(object, printable(evidence));
  if (own_.size() > kShared) own_.erase(own_.begin());
  json::array told;
  for (const auto& [key, text] : own_)
    told.push_back(json::object{{"kind", key.kind},
                                {"group", key.group},
                                {"namespace", key.ns},
                                {"name", key.name},
                                {"evidence", text}});
  if (Status published = board_->publish(kTopic, json::serialize(told)); !published.ok())
    log_.warning("other replicas do not learn which object is refused",
                 {{"object", object.str()}, {"cause", published.error().message}});
}

std::map<ObjectKey, std::string> SharedVerdicts::list() const {
  std::map<ObjectKey, std::string> out;
  if (board_ == nullptr) return out;
  const auto texts = board_->read(kTopic);
  if (!texts.ok()) return out;  // without hints the search takes longer
  for (const auto& [replica, text] : *texts) {
    boost::system::error_code error;
    const json::value parsed = json::parse(text.empty() ? "[]" : text, error);
    if (error || !parsed.is_array()) continue;  // of another version
    for (const json::value& one : parsed.get_array()) {
      if (!one.is_object()) continue;
      const json::object& told = one.get_object();
      const std::string kind = text_of(told, "kind"), group = text_of(told, "group");
      out.emplace(ObjectKey({group, kind}, text_of(told, "namespace"), text_of(told, "name")),
                  replica + ": " + text_of(told, "evidence"));
    }
  }
  return out;
}

}  // namespace osm::inline v1::nack_provenance
