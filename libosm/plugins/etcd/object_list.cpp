#include "etcd/object_list.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "base/base64.hpp"
#include "base/json.hpp"

namespace osm::inline v1::etcd {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxKeys = 200'000;
constexpr std::size_t kPage = 500;                       // keys
constexpr std::size_t kMaxPageBytes = 16 * 1024 * 1024;  // ten values as large as etcd takes them

struct Page {
  std::vector<Pair> pairs{};
  std::int64_t revision = 0;
  bool more = false;
};

Result<Page> read_page(const Gateway& gateway, const json::object& body) {
  Page page;
  const std::string text = json::serialize(body);
  OSM_TRY(gateway.post(Question{"kv/range", text, kMaxPageBytes},
                       [&](const json::object& answer) -> Status {
                         page = {};
                         page.revision = revision_at(map_at(answer, "header"), "revision");
                         page.more = bool_at(answer, "more").value_or(false);
                         if (page.revision <= 0) return not_etcd();
                         for (const json::value& each : list_at(answer, "kvs")) {
                           OSM_TRY(Pair pair, read_pair(each));
                           page.pairs.push_back(std::move(pair));
                         }
                         return {};
                       }));
  return page;
}

}  // namespace

Result<ObjectList> list_objects(const Gateway& gateway, const ObjectKeys& keys) {
  ObjectList list;
  std::string from = keys.begin();
  std::size_t limit = kPage;
  while (true) {
    json::object body{{"key", base64(from)}, {"range_end", base64(keys.end())}, {"limit", limit}};
    if (list.revision > 0) body["revision"] = std::to_string(list.revision);
    auto page = read_page(gateway, body);
    // Large values come in smaller pages.
    if (!page.ok() && page.error().code == ErrorCode::kTooLarge && limit > 1) {
      limit = std::max<std::size_t>(limit / 8, 1);
      continue;
    }
    if (!page.ok()) return page.error();
    if (list.revision == 0) list.revision = page->revision;
    for (Pair& pair : page->pairs) list.pairs.push_back(std::move(pair));
    if (list.pairs.size() > kMaxKeys)
      return Error{ErrorCode::kTooLarge, "there are more than " + std::to_string(kMaxKeys) +
                                             " keys below " + keys.begin()};
    if (!page->more || list.pairs.empty()) return list;
    from = list.pairs.back().key + '\0';
  }
}

}  // namespace osm::inline v1::etcd
