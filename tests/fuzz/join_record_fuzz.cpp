// The record of tokens that replicas share, and what a caller without rights shows → a machine or
// none: only a token that the record has, with its secret and its time, is somebody's, and once. A
// record that is damaged is not replaced.
//
//   input: lines with an id and a secret, then the record. "%" in the record stands for the hash of
//   the secret.
#include <boost/json.hpp>
#include <chrono>

#include "admin/join_tokens.hpp"
#include "base/digest.hpp"
#include "base/json.hpp"
#include "fuzz/fuzz.hpp"
#include "osm/testing/manual_clock.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

class Record final : public TextRecord {
 public:
  explicit Record(std::string text) : text_(std::move(text)) {}
  std::string name() const override { return "the record"; }
  Result<Text> load() override { return Text{text_, "1"}; }
  Status store(const Text& next) override {
    text_ = next.text;
    stored = true;
    return {};
  }

  bool stored = false;

 private:
  std::string text_;
};

// True if the record names the token, with its machine, by any of its entries.
bool names(const std::string& record, const std::string& id, const std::string& hash,
           const WorkloadName& machine) {
  const auto parsed = parse_json_object(record, "");
  if (!parsed.ok()) return false;
  for (const auto& entry : list_at(*parsed, "tokens"))
    if (text_at(entry, "id") == id && text_at(entry, "hash") == hash &&
        text_at(entry, "namespace") == machine.ns && text_at(entry, "name") == machine.name)
      return true;
  return false;
}

void run(Choices choices) {
  const std::string id = choices.line(), secret = choices.line();
  const std::string hash = digest_of(secret).hex();
  std::string text;
  for (const char c : choices.rest()) text += c == '%' ? hash : std::string(1, c);

  const testing::ManualClock clock;
  Record record(text);
  admin::JoinTokens tokens(record, clock);
  const auto found = tokens.find(id, secret);
  require(!record.stored, "a question changes nothing");
  const auto taken = tokens.take(id, secret);
  require(found.ok() == taken.ok(), "what is found can be taken", text);
  if (found.ok()) {
    require(*found == *taken && names(text, id, hash, *found), "a machine is the record's", text);
    require(!tokens.take(id, secret).ok() && !tokens.find(id, secret).ok(), "a token works once");
  } else {
    require(!record.stored, "a refusal changes nothing", found.error().message);
  }
  const bool damaged = !found.ok() && found.error().code == ErrorCode::kInvalidSyntax;
  const auto made = tokens.make({"shop", "web-1"}, std::chrono::minutes(15));
  require(!damaged || !made.ok(), "a damaged record gets no token");
  require(damaged == !(made.ok() || made.error().code == ErrorCode::kTooLarge),
          "a record that can be read gets a token");
  require(!damaged || !record.stored, "a damaged record is not replaced");
  if (made.ok())
    require(tokens.take(made->id, made->secret).ok(), "a token that was made can be taken");
}

const bool kAdded = add("join_record", [](std::string_view input) { run(Choices(input)); });

}  // namespace
