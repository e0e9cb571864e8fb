// Replicas share what their proxies applied, and unreadable shares count as unknown.
#include "kubernetes/upkeep/status_share.hpp"

#include <doctest/doctest.h>

using namespace osm;
using namespace osm::kubernetes;

namespace {

constexpr auto kApplied = ObjectPhase::kApplied;
constexpr auto kPending = ObjectPhase::kPending;
constexpr auto kRefused = ObjectPhase::kRefused;
constexpr auto kRejected = ObjectPhase::kRejected;
constexpr const char* kId = "0123456789ab";

Shares said(const Share& share) { return {{{kId, share}}, true}; }

}  // namespace

TEST_SUITE("kubernetes::Share") {
  TEST_CASE("a written text is read back") {
    const std::map<std::string, Share, std::less<>> shares{{"000000000001", {0, kApplied, 0, 0}},
                                                           {"00000000000a", {7, kPending, 1, 3}},
                                                           {"0000000000ff", {-1, kRefused, 2, 3}},
                                                           {"ffffffffffff", {9, kRejected, 0, 1}}};
    const Shares read = parse_shares(text_of(shares, 1000));
    CHECK(read.complete);
    CHECK(read.objects == shares);
    CHECK(parse_shares(text_of({}, 1000)).complete);
  }

  TEST_CASE("lines that do not fit are left out, and the reader knows") {
    std::map<std::string, Share, std::less<>> shares;
    for (int i = 0; i < 5000; ++i)
      shares.emplace(share_id({kinds::kTrafficTarget, "shop", std::to_string(i)}),
                     Share{i, kApplied, 12, 12});
    CHECK(shares.size() == 5000);  // no two names have one id
    const std::string text = text_of(shares, 100'000);
    CHECK(text.size() <= 100'000);
    CHECK(text.size() > 99'900);
    const Shares read = parse_shares(text);
    CHECK_FALSE(read.complete);
    CHECK(read.objects.size() > 2500);
    for (const auto& [id, share] : read.objects) CHECK(shares.at(id) == share);
  }

  TEST_CASE("the text of another version reads as empty and incomplete") {
    for (const char* text : {"", "2 complete\n0123456789ab 3 applied 1 1", "{\"v\":1}"}) {
      const Shares read = parse_shares(text);
      CHECK(read.objects.empty());
      CHECK_FALSE(read.complete);
    }
    const Shares some = parse_shares(
        "1 complete\n0123456789ab 3 applied 1 1\nfoo\n0123456789ac 1 undreamt-of 1 1\n"
        "0123456789ad x applied 1 1\n0123456789ae 1 applied 1");
    CHECK(some.objects.size() == 1);
    CHECK_FALSE(some.complete);
  }

  TEST_CASE("proxies of all are counted") {
    const Shares b = said({3, kApplied, 1, 1}), c = said({3, kApplied, 0, 0});
    const ShareSum sum = sum_of(kId, {3, kApplied, 2, 2}, {&b, &c});
    CHECK(sum.share == Share{3, kApplied, 3, 3});
    CHECK(sum.behind == 0);
    CHECK(sum.mute == 0);
  }

  TEST_CASE("a replica that has not read this version has applied nothing of it") {
    const Shares b = said({2, kApplied, 5, 5});
    ShareSum sum = sum_of(kId, {3, kApplied, 2, 2}, {&b});
    CHECK(sum.share == Share{3, kPending, 2, 7});
    CHECK(sum.behind == 1);
    const Shares ahead = said({4, kApplied, 5, 5});
    sum = sum_of(kId, {3, kApplied, 2, 2}, {&ahead});
    CHECK(sum.share == Share{4, kPending, 5, 7});
    const Shares none{};
    sum = sum_of(kId, {3, kApplied, 2, 2}, {&none});
    CHECK(sum.share == Share{3, kPending, 2, 2});
    CHECK(sum.behind == 1);
  }

  TEST_CASE("a replica that cannot say is not waited for, and named") {
    const Shares b{{}, false};
    const ShareSum sum = sum_of(kId, {3, kApplied, 2, 2}, {&b});
    CHECK(sum.share == Share{3, kApplied, 2, 2});
    CHECK(sum.mute == 1);
  }

  TEST_CASE("a problem on any replica counts") {
    const auto phase = [](ObjectPhase ours, ObjectPhase theirs) {
      const Shares b = said({3, theirs, 0, 1});
      return sum_of(kId, {3, ours, 1, 1}, {&b}).share.phase;
    };
    CHECK(phase(kApplied, kPending) == kPending);
    CHECK(phase(kPending, kApplied) == kPending);
    CHECK(phase(kPending, kRefused) == kRefused);
    CHECK(phase(kRefused, kPending) == kRefused);
    CHECK(phase(kRefused, kApplied) == kRefused);
    CHECK(phase(kApplied, kRejected) == kRefused);  // withheld there alone: a proxy refused it
    CHECK(phase(kRejected, kApplied) == kRejected);
  }
}
