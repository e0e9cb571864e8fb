#include "admin/join_tokens.hpp"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/digest.hpp"
#include "base/hex.hpp"
#include "base/json.hpp"

namespace osm::inline v1::admin {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostTokens = 1000;
constexpr int kMostAttempts = 8;  // replicas that change the record at once

using Entry = RecordedToken;

std::int64_t seconds_of(WallTime time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

Result<std::string> random_hex(std::size_t bytes) {
  std::array<std::uint8_t, 32> random{};
  if (::getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes))
    return Error{ErrorCode::kInternal, "no random numbers for a token"};
  return hex_of(std::span(random).first(bytes));
}

Result<std::vector<Entry>> decode(const std::string& text, const std::string& name) {
  std::vector<Entry> entries;
  if (text.empty()) return entries;
  const auto parsed = parse_json_object(text, name);
  if (!parsed.ok()) return parsed.error();
  for (const json::value& value : list_at(*parsed, "tokens"))
    entries.push_back({text_at(value, "id"),
                       text_at(value, "hash"),
                       {text_at(value, "namespace"), text_at(value, "name")},
                       number_at(value, "expires")});
  return entries;
}

std::string encode(const std::vector<Entry>& entries) {
  json::array tokens;
  for (const Entry& entry : entries)
    tokens.push_back(json::object{{"id", entry.id},
                                  {"hash", entry.hash},
                                  {"namespace", entry.machine.ns},
                                  {"name", entry.machine.name},
                                  {"expires", entry.expires}});
  return json::serialize(json::object{{"tokens", std::move(tokens)}});
}

Error unknown() {
  return {ErrorCode::kPermissionDenied,
          "the token is not valid: it was used, has expired, or was replaced by a newer one of the "
          "machine; make another one with `osm vm token`"};
}

Error busy() {
  return {ErrorCode::kNotReady,
          "too many callers without a valid token ask at once, so the tokens are read again in a "
          "moment; ask again"};
}

// The entry of a token; null: there is none.
const Entry* match(const std::vector<Entry>& entries, std::string_view id, std::string_view secret,
                   std::int64_t now) {
  const auto at = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) {
    return entry.id == id && entry.expires > now && entry.hash == digest_of(secret).hex();
  });
  return at == entries.end() ? nullptr : &*at;
}

// Changes the record until nobody else has changed it meanwhile. `edit` may run several times.
Status edit_record(TextRecord& record, const std::function<Status(std::vector<Entry>&)>& edit) {
  Status stored;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    OSM_TRY(const TextRecord::Text present, record.load());
    OSM_TRY(std::vector<Entry> entries, decode(present.text, record.name()));
    OSM_TRY(edit(entries));
    stored = record.store({encode(entries), present.version});
    if (stored.ok() || stored.error().code != ErrorCode::kConflict) break;
  }
  return stored;
}

}  // namespace

Result<JoinToken> JoinTokens::make(const WorkloadName& machine, std::chrono::seconds life) {
  if (life < kShortest || life > kLongest)
    return Error{ErrorCode::kInvalidArgument, "a token lives from 1 minute to 24 hours"};
  OSM_TRY(std::string id, random_hex(8));
  OSM_TRY(std::string secret, random_hex(32));
  const WallTime now = clock_.wall_now();
  JoinToken token{std::move(id), std::move(secret), now + life};
  const std::lock_guard lock(editing_);
  OSM_TRY(edit_record(record_, [&](std::vector<Entry>& entries) -> Status {
    std::erase_if(entries, [&](const Entry& entry) {
      return entry.expires <= seconds_of(now) || entry.machine == machine;
    });
    if (entries.size() >= kMostTokens)
      return Error{ErrorCode::kTooLarge, std::to_string(kMostTokens) +
                                             " tokens wait for their machines: wait until some "
                                             "are used or expire"};
    entries.push_back(
        {token.id, digest_of(token.secret).hex(), machine, seconds_of(token.expires)});
    return {};
  }));
  return token;
}

Result<JoinTokens::Known> JoinTokens::read_tokens() {
  {
    const std::lock_guard lock(mutex_);
    if (!reads_.take()) {
      if (copy_) return Known{copy_, false};
      return busy();
    }
  }
  OSM_TRY(const TextRecord::Text present, record_.load());
  OSM_TRY(std::vector<Entry> entries, decode(present.text, record_.name()));
  auto read = std::make_shared<const std::vector<Entry>>(std::move(entries));
  const std::lock_guard lock(mutex_);
  copy_ = read;
  return Known{std::move(read), true};
}

Result<WorkloadName> JoinTokens::find(std::string_view id, std::string_view secret) {
  OSM_TRY(const Known known, read_tokens());
  const Entry* const entry = match(*known.tokens, id, secret, seconds_of(clock_.wall_now()));
  if (entry != nullptr) return entry->machine;
  return known.read_now ? unknown() : busy();
}

Result<WorkloadName> JoinTokens::take(std::string_view id, std::string_view secret) {
  OSM_TRY(find(id, secret));  // others change nothing, and wait for nobody who does
  WorkloadName machine;
  const std::lock_guard lock(editing_);
  OSM_TRY(edit_record(record_, [&](std::vector<Entry>& entries) -> Status {
    const Entry* const entry = match(entries, id, secret, seconds_of(clock_.wall_now()));
    if (entry == nullptr) return unknown();
    machine = entry->machine;
    std::erase_if(entries, [&](const Entry& other) { return other.id == id; });
    return {};
  }));
  return machine;
}

}  // namespace osm::inline v1::admin
