// The record of drained machines that replicas share → who is drained: valid names with valid
// UUIDs, at most 1000; a record that is damaged drains nobody and is not replaced.
//
//   input: the record.
#include <boost/json.hpp>

#include "base/json.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/quiet.hpp"
#include "osm/providers/drained_machines.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

class Record final : public TextRecord {
 public:
  explicit Record(std::string_view text) : text_(text) {}
  std::string name() const override { return "the record"; }
  Result<Text> load() override { return Text{text_, "1"}; }
  Status store(const Text& next) override {
    text_ = next.text;
    stored = true;
    return {};
  }
  const std::string& text() const { return text_; }

  bool stored = false;

 private:
  std::string text_;
};

void run(std::string_view input) {
  testing::ManualClock clock;
  testing::ManualExecutor executor(clock);
  RandomRng rng(1);
  QuietLog log;
  QuietMetrics metrics;
  Record record(input);
  const auto drained = vm::make_drained_machines(
      {.record = record, .runtime = {executor, executor, clock, rng, log, metrics}});
  executor.run_until_idle();
  const auto parsed = parse_json_object(input, "");
  if (!input.empty() && !parsed.ok())
    require(!drained->has_synced(), "a damaged record is not read", input);
  std::size_t count = 0;
  if (parsed.ok())
    for (const boost::json::value& entry : list_at(*parsed, "machines")) {
      const WorkloadName machine{text_at(entry, "namespace"), text_at(entry, "name")};
      const std::string uuid = text_at(entry, "uuid");
      const bool valid =
          is_dns_label(machine.ns) && is_dns_subdomain(machine.name) && is_uuid(uuid);
      require(valid || !drained->has_synced(), "a record with a bad entry is not read", input);
      if (valid && drained->contains(machine, ProxyId(uuid))) ++count;
    }
  require(count <= 1000, "1000 machines are drained at most");
  require(drained->has_synced() || count == 0, "a record that is not read drains nobody", input);
  const Status back = drained->take_back({"shop", "web-1"});
  require(drained->has_synced() || !record.stored, "a damaged record is not replaced", input);
  if (back.ok() && record.stored)
    require(parse_json_object(record.text(), "").ok(), "what is written reads back");
}

const bool kAdded = add("drained", run);

}  // namespace
