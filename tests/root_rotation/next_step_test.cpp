// Each step of a root rotation waits for its evidence, and no order of events separates two
// proxies.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "lib/run.hpp"
#include "root_rotation/next_step.hpp"

namespace {

using namespace osm;
using namespace osm::root_rotation;
using std::chrono::hours;
using std::chrono::seconds;

const WallTime kStart{hours(500'000)};
constexpr seconds kLeaf = hours(48);

RootWish wish(std::string name, RootRole role, const TrustDomain& domain = {}) {
  return {.name = name, .role = role, .bundle_pem = "pem of " + name, .trust_domain = domain};
}

// A rotation under test: applies each step, as RootRotation does.
struct Rotation {
  std::vector<RootRecord> records;
  std::vector<RootWish> wishes;
  RotationEvidence evidence{.complete = true};
  WallTime now = kStart;
  seconds max_wait = kLeaf;
  std::map<std::string, std::string> waiting;

  // Result: true if a root entered another state.
  bool step() {
    RotationStep next = next_step({records, wishes, evidence, now, kLeaf, max_wait});
    waiting = std::move(next.waiting);
    const std::vector<RootRecord> before = std::exchange(records, next.records);
    return !std::equal(before.begin(), before.end(), records.begin(), records.end(),
                       [](const RootRecord& a, const RootRecord& b) {
                         return a.name == b.name && a.state == b.state;
                       });
  }
  RootState state(const std::string& name) const {
    for (const RootRecord& record : records)
      if (record.name == name) return record.state;
    return RootState::kInactive;
  }
  RootRecord& record(const std::string& name) {
    return *std::ranges::find(records, name, &RootRecord::name);
  }
  void settle() {
    while (step()) now += seconds(1);
  }
  // Old signs, next is wished to: one step has made everybody trust it.
  static Rotation under_way() {
    Rotation it;
    it.wishes = {wish("old", RootRole::kActive)};
    it.settle();
    it.wishes = {wish("old", RootRole::kInactive), wish("next", RootRole::kActive)};
    it.now += hours(1);
    it.evidence = {.complete = true, .bundle_lag = 1};
    it.step();
    return it;
  }
};

TEST_SUITE("root_rotation::next_step") {
  TEST_CASE("the first root signs at once") {
    Rotation it;
    it.evidence = {.complete = false, .waiting_for = "everybody"};
    it.wishes = {wish("old", RootRole::kActive)};
    CHECK(it.step());
    CHECK(it.state("old") == RootState::kSigning);
    CHECK(it.records[0].bundle_pem == "pem of old");
    CHECK_FALSE(it.step());
  }

  TEST_CASE("the next root is trusted first, then signs, and the old root ends last") {
    Rotation it = Rotation::under_way();
    CHECK(it.state("old") == RootState::kSigning);
    CHECK(it.state("next") == RootState::kValidating);

    it.evidence = {.complete = true};
    CHECK(it.step());
    CHECK(it.state("next") == RootState::kSigning);
    CHECK(it.state("old") == RootState::kDraining);

    it.evidence = {.complete = true, .leaf_lag = 1, .any_lag = 1};
    CHECK_FALSE(it.step());
    CHECK(it.waiting["old"] == "waits for 1 proxies with a certificate of another root");
    it.evidence = {.complete = true};
    CHECK(it.step());
    CHECK(it.state("old") == RootState::kInactive);
    CHECK_FALSE(it.step());
  }

  TEST_CASE("each kind of missing evidence holds a step, and is named") {
    struct Row {
      RotationEvidence evidence;
      std::string why_not_signing;
      std::string why_not_dropped;
    };
    const std::string ok;
    for (const Row& row : {
             Row{{.complete = false, .waiting_for = "replica b"},
                 "waits for replica b",
                 "waits for replica b"},
             Row{{.complete = true, .bundle_lag = 2, .any_lag = 2},
                 "waits for 2 proxies without the newest trust bundle",
                 "waits for 2 proxies without the newest trust bundle"},
             Row{{.complete = true, .leaf_lag = 3, .any_lag = 3},
                 ok,
                 "waits for 3 proxies with a certificate of another root"},
             Row{{.complete = true, .own_lag = 1},
                 ok,
                 "waits for 1 certificates of the control plane"},
             Row{{.complete = true, .absent = 4},
                 "waits for 4 workloads whose proxy is not connected",
                 "waits for 4 workloads whose proxy is not connected"},
         }) {
      CAPTURE(row.why_not_dropped);
      Rotation it = Rotation::under_way();
      it.evidence = row.evidence;
      CHECK(it.step() == row.why_not_signing.empty());
      CHECK(it.waiting["next"] == row.why_not_signing);
      it.evidence = {.complete = true};
      if (it.state("old") == RootState::kSigning) it.step();
      REQUIRE(it.state("old") == RootState::kDraining);
      it.evidence = row.evidence;
      CHECK_FALSE(it.step());
      CHECK(it.waiting["old"] == row.why_not_dropped);
    }
  }

  TEST_CASE("the last root of a trust domain ends in two steps: first its trust, then its names") {
    const TrustDomain from("old.example"), to("new.example");
    Rotation it;
    it.wishes = {wish("old", RootRole::kActive, from)};
    it.settle();
    it.wishes = {wish("old", RootRole::kInactive, from), wish("next", RootRole::kActive, to)};
    it.evidence = {.complete = true, .bundle_lag = 1};
    it.step();
    CHECK_FALSE(it.step());
    CHECK(it.waiting["next"] ==
          "waits for 1 proxies without the newest trust bundle and trust domains");
    it.evidence = {.complete = true};
    it.step();
    REQUIRE(it.state("old") == RootState::kDraining);
    it.step();
    REQUIRE(it.state("old") == RootState::kClosing);
    CHECK(it.records[1].bundle_pem.empty());
    CHECK(it.records[1].trust_domain == from);

    SUBCASE("its names leave policy after every proxy replaced its connections") {
      it.evidence = {.complete = true, .bundle_lag = 1};
      CHECK_FALSE(it.step());
      CHECK(it.waiting["old"] ==
            "waits for 1 proxies without the newest trust bundle and trust domains");
      it.evidence = {.complete = true, .leaf_lag = 1, .own_lag = 1};
      CHECK(it.step());
      CHECK(it.state("old") == RootState::kInactive);
    }
    SUBCASE("it may be wanted again meanwhile") {
      it.wishes[0].role = RootRole::kPassive;
      it.settle();
      CHECK(it.state("old") == RootState::kTrusted);
      CHECK(it.state("next") == RootState::kSigning);
    }
  }

  TEST_CASE("a root of a domain that stays ends in one step") {
    const TrustDomain domain("one.example");
    Rotation it;
    it.wishes = {wish("old", RootRole::kActive, domain)};
    it.settle();
    it.wishes = {wish("old", RootRole::kInactive, domain), wish("next", RootRole::kActive, domain)};
    std::set<RootState> seen;
    while (it.step()) seen.insert(it.state("old"));
    CHECK(seen ==
          std::set<RootState>{RootState::kSigning, RootState::kDraining, RootState::kInactive});
  }

  TEST_CASE("a trusted root keeps its trust domain when its object changes") {
    Rotation it;
    it.wishes = {wish("old", RootRole::kActive, TrustDomain("one.example"))};
    it.settle();
    it.wishes[0].trust_domain = TrustDomain("two.example");
    CHECK_FALSE(it.step());
    CHECK(it.records[0].trust_domain == TrustDomain("one.example"));
    CHECK(it.waiting["old"].find("spec.trustDomain back") != std::string::npos);
  }

  TEST_CASE("an absent proxy holds a step no longer than a leaf lives") {
    Rotation it = Rotation::under_way();
    it.evidence = {.complete = false, .absent = 1, .waiting_for = "replica b"};
    it.now += 2 * kLeaf;
    CHECK_FALSE(it.step());  // replica b may have given him a leaf just now
    it.evidence.complete = true;
    it.step();
    it.now += kLeaf - seconds(1);
    CHECK_FALSE(it.step());
    it.evidence.young = true;  // a controller that starts again and again prolongs it no further
    CHECK_FALSE(it.step());
    it.now += seconds(1);
    CHECK(it.step());
    CHECK(it.state("next") == RootState::kSigning);
    it.step();  // the second wait begins here
    it.now += kLeaf;
    CHECK(it.step());
    CHECK(it.state("old") == RootState::kInactive);
  }

  TEST_CASE("few silent or absent proxies hold a step for a bounded time, however they do it") {
    struct Row {
      RotationEvidence evidence;
      bool few;
    };
    for (const Row& row : {
             Row{{.complete = true, .bundle_lag = 1, .leaf_lag = 1, .any_lag = 1}, true},
             Row{{.complete = true, .bundle_lag = 4, .leaf_lag = 4, .any_lag = 4, .absent = 6},
                 true},
             Row{{.complete = true, .bundle_lag = 5, .leaf_lag = 5, .any_lag = 5, .absent = 6},
                 false},
             Row{{.complete = true, .absent = 11}, false},
             Row{{.complete = true, .workloads = 1099, .absent = 11}, false},
             Row{{.complete = true, .workloads = 1100, .absent = 11}, true},
         }) {
      CAPTURE(row.evidence.absent);
      Rotation it = Rotation::under_way();
      it.max_wait = seconds(60);
      const auto passes_after = [&](seconds wait) {
        it.step();  // every replica acts on the state from here on
        it.now += wait - seconds(1);
        CHECK_FALSE(it.step());
        it.now += seconds(1);
        if (row.few) {
          it.evidence.young = true;  // they may be on their way to a controller that has started
          CHECK_FALSE(it.step());
          it.evidence.young = false;
        }
        CHECK(it.step());
      };
      it.evidence = row.evidence;
      it.evidence.lagging = "shop/a";
      passes_after(row.few ? it.max_wait : kLeaf);
      REQUIRE(it.state("next") == RootState::kSigning);
      CHECK(it.record("next").left_behind.find("(shop/a)") != std::string::npos);
      it.evidence.own_lag = 1;  // what is ours holds it for as long as it takes
      it.step();
      it.now += kLeaf;
      CHECK_FALSE(it.step());
      CHECK(it.waiting["old"] == "waits for 1 certificates of the control plane");
      it.evidence.own_lag = 0;
      CHECK(it.step());
      CHECK(it.state("old") == RootState::kInactive);
    }
  }

  TEST_CASE("a root whose certificates have all ended waits for no proxy") {
    Rotation it = Rotation::under_way();
    it.evidence = {.complete = true};
    it.step();
    REQUIRE(it.state("old") == RootState::kDraining);
    it.record("old").latest_not_after = it.now + hours(1);
    it.evidence = {.complete = true, .leaf_lag = 50, .any_lag = 50};
    it.step();
    it.now += hours(1) - seconds(2);
    CHECK_FALSE(it.step());
    it.now += seconds(2);
    CHECK(it.step());
    CHECK(it.state("old") == RootState::kInactive);
  }

  TEST_CASE("a root drains no further while another validates, though nothing else holds it") {
    Rotation it = Rotation::under_way();
    it.max_wait = seconds(60);
    it.evidence = {.complete = true};
    it.step();
    REQUIRE(it.state("old") == RootState::kDraining);
    it.evidence = {.complete = true, .bundle_lag = 1, .leaf_lag = 1, .any_lag = 1};
    CHECK_FALSE(it.step());
    it.now += it.max_wait - seconds(1);
    it.wishes.push_back(wish("third", RootRole::kActive));
    CHECK(it.step());
    REQUIRE(it.state("third") == RootState::kValidating);
    REQUIRE(it.state("old") == RootState::kDraining);

    it.now += seconds(1);  // the silent proxy no longer holds the old root
    CHECK_FALSE(it.step());
    CHECK(it.state("old") == RootState::kDraining);
    CHECK(it.waiting["old"] == "waits until another root signs");
    CHECK(it.waiting["third"] == "waits for 1 proxies without the newest trust bundle");

    it.evidence = {.complete = true};
    CHECK(it.step());
    CHECK(it.state("third") == RootState::kSigning);
    CHECK(it.step());
    CHECK(it.state("old") == RootState::kInactive);
  }

  TEST_CASE("the only root that can sign goes on signing") {
    Rotation it;
    it.wishes = {wish("old", RootRole::kActive)};
    it.settle();
    SUBCASE("wished inactive") { it.wishes = {wish("old", RootRole::kInactive)}; }
    SUBCASE("removed") { it.wishes = {}; }
    SUBCASE("its successor cannot be asked") {
      it.wishes = {wish("old", RootRole::kInactive),
                   {.name = "next", .role = RootRole::kActive, .fault = "vault is sealed"}};
    }
    SUBCASE("its successor is passive") {
      it.wishes = {wish("old", RootRole::kInactive), wish("next", RootRole::kPassive)};
    }
    it.settle();
    CHECK(it.state("old") == RootState::kSigning);
    CHECK(it.waiting["old"].find("only one that can sign") != std::string::npos);
    if (it.wishes.size() == 2 && !it.wishes[1].fault.empty())
      CHECK(it.waiting["next"] == "vault is sealed");
  }

  TEST_CASE("a passive root is trusted, and its role may change at any point") {
    Rotation it = Rotation::under_way();
    SUBCASE("before it signs") {}
    SUBCASE("after it signs") {
      it.evidence = {.complete = true};
      it.step();
    }
    it.evidence = {.complete = true};
    it.wishes = {wish("old", RootRole::kActive), wish("next", RootRole::kPassive)};
    it.settle();
    CHECK(it.state("old") == RootState::kSigning);
    CHECK(it.state("next") == RootState::kTrusted);
    it.wishes = {wish("old", RootRole::kActive), wish("next", RootRole::kInactive)};
    it.settle();
    CHECK(it.state("next") == RootState::kInactive);
  }

  TEST_CASE("a root that never signed is not trusted any more as soon as it is withdrawn") {
    for (const bool removed : {false, true}) {
      Rotation it = Rotation::under_way();
      REQUIRE(it.state("next") == RootState::kValidating);
      // Nobody acknowledges anything, and a workload is away: neither holds it.
      it.evidence = {.complete = false, .bundle_lag = 9, .absent = 9, .waiting_for = "replica b"};
      it.wishes = {wish("old", RootRole::kActive)};
      if (!removed) it.wishes.push_back(wish("next", RootRole::kInactive));
      CHECK(it.step());
      CHECK(it.state("next") == RootState::kInactive);
      CHECK(it.state("old") == RootState::kSigning);
      for (const RootRecord& record : it.records)
        if (record.name == "next") CHECK(record.bundle_pem.empty());
    }
  }

  TEST_CASE("names of a domain close when its last root is withdrawn, also one that never signed") {
    const TrustDomain old_domain("a.example"), next_domain("b.example");
    Rotation it;
    it.wishes = {wish("old", RootRole::kActive, old_domain)};
    it.settle();
    it.now += hours(1);
    it.wishes = {wish("old", RootRole::kInactive, old_domain),
                 wish("spare", RootRole::kPassive, old_domain),
                 wish("next", RootRole::kActive, next_domain)};
    it.settle();
    REQUIRE(it.state("old") == RootState::kInactive);
    REQUIRE(it.state("next") == RootState::kSigning);
    it.wishes = {wish("next", RootRole::kActive, next_domain)};
    it.evidence.bundle_lag = 1;  // a proxy has connections from when the old root signed
    it.settle();
    CHECK(it.state("spare") == RootState::kClosing);
    it.evidence.bundle_lag = 0;
    it.settle();
    CHECK(it.state("spare") == RootState::kInactive);
  }

  TEST_CASE("a distrusted root ends at once, whatever holds it, and no wish brings it back") {
    Rotation it = Rotation::under_way();
    it.evidence = {.complete = false, .bundle_lag = 1, .waiting_for = "a replica"};
    auto cut = distrust({it.records, it.wishes, it.evidence, it.now, kLeaf, kLeaf}, "old");
    REQUIRE(cut.ok());
    it.records = *cut;
    CHECK(it.state("old") == RootState::kInactive);
    CHECK(it.state("next") == RootState::kSigning);
    it.wishes = {wish("old", RootRole::kActive), wish("next", RootRole::kInactive)};
    it.evidence = {.complete = true};
    it.settle();
    CHECK(it.state("old") == RootState::kInactive);
    CHECK(it.state("next") == RootState::kSigning);
    CHECK(it.waiting.at("old").find("distrusted") != std::string::npos);
  }

  TEST_CASE(
      "after distrust a root signs that was not trusted before, and is trusted from then on") {
    const TrustDomain domain("one.example"), other("two.example");
    Rotation it;
    it.wishes = {wish("old", RootRole::kActive, domain)};
    it.settle();
    it.wishes.push_back(wish("next", RootRole::kActive, other));
    REQUIRE(it.state("next") == RootState::kInactive);
    const auto cut = distrust({it.records, it.wishes, it.evidence, it.now, kLeaf, kLeaf}, "old");
    REQUIRE(cut.ok());
    it.records = *cut;
    CHECK(it.state("old") == RootState::kInactive);
    CHECK(it.record("old").bundle_pem.empty());
    CHECK(it.state("next") == RootState::kSigning);
    CHECK(it.record("next").bundle_pem == "pem of next");
    CHECK(it.record("next").trust_domain == other);
  }

  TEST_CASE("a root that does not sign is distrusted at once, too") {
    for (const RootRole role : {RootRole::kPassive, RootRole::kInactive}) {
      Rotation it = Rotation::under_way();
      it.evidence = {.complete = true};
      it.step();  // "next" signs, "old" drains
      it.evidence = {.complete = false, .waiting_for = "a replica"};
      it.wishes = {wish("old", role), wish("next", RootRole::kActive)};
      it.settle();
      REQUIRE(is_trusted(it.state("old")));
      const auto cut = distrust({it.records, it.wishes, it.evidence, it.now, kLeaf, kLeaf}, "old");
      REQUIRE(cut.ok());
      it.records = *cut;
      CHECK(it.state("old") == RootState::kInactive);
      CHECK(it.state("next") == RootState::kSigning);
    }
  }

  TEST_CASE("a root is not distrusted if no other root can sign") {
    Rotation it;
    it.wishes = {wish("old", RootRole::kActive)};
    it.settle();
    it.wishes.push_back({.name = "next", .role = RootRole::kActive, .fault = "is away"});
    for (const char* name : {"old", "nobody"}) {
      const auto cut = distrust({it.records, it.wishes, it.evidence, it.now, kLeaf, kLeaf}, name);
      REQUIRE_FALSE(cut.ok());
      CHECK(cut.error().code ==
            (std::string(name) == "old" ? ErrorCode::kInvalidArgument : ErrorCode::kNotFound));
    }
  }

  TEST_CASE("a CA that was exchanged under its object is reported, and not trusted") {
    Rotation it;
    it.wishes = {wish("old", RootRole::kActive)};
    it.settle();
    it.wishes[0].bundle_pem = "another";
    CHECK_FALSE(it.step());
    CHECK(it.records[0].bundle_pem == "pem of old");
    CHECK(it.waiting["old"].find("another certificate than before") != std::string::npos);
  }

  // Two replicas, some proxies, three roots of two trust domains; wishes, crashes, absences and
  // time as they come.
  TEST_CASE("no order of events makes a proxy meet a peer that it does not admit") {
    auto random = osm::testing::seeded();
    const auto pick = [&](std::size_t count) {
      return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
    };
    struct Replica {
      std::vector<RootRecord> followed;
      bool alive = true;
    };
    struct Node {
      int replica = -1;  // -1: connected to nobody
      std::set<std::string> trusts;
      std::set<TrustDomain> accepts;  // of who connects
      std::set<TrustDomain> allows;   // of who is connected
      std::string leaf;               // its root
      TrustDomain shown;              // by its oldest connections to others
      WallTime leaf_ends{};
    };
    const auto domain_of = [](const std::string& root) {
      return TrustDomain(root == "b" ? "b.example" : "a.example");
    };
    const auto trusted = [](const std::vector<RootRecord>& records) {
      std::set<std::string> names;
      for (const RootRecord& root : records)
        if (is_trusted(root.state)) names.insert(root.name);
      return names;
    };
    const auto accepted = [](const std::vector<RootRecord>& records) {
      std::set<TrustDomain> domains;
      for (const RootRecord& root : records)
        if (is_trusted(root.state)) domains.insert(root.trust_domain);
      return domains;
    };
    const auto allowed = [](const std::vector<RootRecord>& records) {
      std::set<TrustDomain> domains;
      for (const RootRecord& root : records)
        if (root.state != RootState::kInactive) domains.insert(root.trust_domain);
      return domains;
    };
    const auto signer = [](const std::vector<RootRecord>& records) -> std::string {
      for (const RootRecord& root : records)
        if (root.state == RootState::kSigning) return root.name;
      return {};
    };
    const std::vector<std::string> names{"a", "b", "c"};
    Rotation it;
    it.wishes = {wish("a", RootRole::kActive, domain_of("a"))};
    it.settle();
    std::vector<Replica> replicas(2, {it.records});
    std::vector<Node> nodes(4);
    std::size_t rotations = 0, dropped = 0, moved = 0;

    const auto sync = [&](Node& node) {
      const Replica& from = replicas[static_cast<std::size_t>(node.replica)];
      node.trusts = trusted(from.followed);
      node.leaf = signer(from.followed);
      // Other peers are other clusters, whose connections are new ones.
      if (std::exchange(node.accepts, accepted(from.followed)) != accepted(from.followed))
        node.shown = domain_of(node.leaf);
      node.allows = allowed(from.followed);
      node.leaf_ends = it.now + kLeaf;
    };
    const auto acts_on = [&](const std::vector<RootRecord>& record) {
      return std::tuple(trusted(record), signer(record), allowed(record));
    };
    const auto look = [&] {
      RotationEvidence seen{.complete = true, .waiting_for = "a replica"};
      for (const Replica& replica : replicas)
        if (replica.alive)
          seen.complete = seen.complete && acts_on(replica.followed) == acts_on(it.records);
      for (const Node& node : nodes) {
        if (node.replica < 0) {
          ++seen.absent;
          continue;
        }
        const bool lacks_bundle = node.trusts != trusted(it.records) ||
                                  node.accepts != accepted(it.records) ||
                                  node.allows != allowed(it.records);
        const bool lacks_leaf = node.leaf != signer(it.records);
        seen.bundle_lag += lacks_bundle;
        seen.leaf_lag += lacks_leaf;
        seen.any_lag += lacks_bundle || lacks_leaf;
      }
      return seen;
    };

    const int events = osm::testing::steps(50'000, 500'000);
    for (int i = 0; i < events; ++i) {
      Node& node = nodes[pick(nodes.size())];
      const std::size_t which = pick(replicas.size());
      Replica& replica = replicas[which];
      switch (pick(10)) {
        case 0:  // somebody changes his mind
          if (pick(20) == 0) {
            it.wishes.clear();
            for (const std::string& name : names)
              if (pick(4) != 0)
                it.wishes.push_back(wish(name, static_cast<RootRole>(pick(3)), domain_of(name)));
          }
          break;
        case 1:
          if (replica.alive && pick(8) == 0) replica.followed = it.records;
          break;
        case 2:  // it dies and takes its streams along, or starts again from the record
          if (pick(10) == 0) {
            replica.alive = !replica.alive;
            replica.followed = it.records;
            for (Node& of : nodes)
              if (of.replica == static_cast<int>(which)) of.replica = -1;
          }
          break;
        case 3:
          if (pick(4) == 0) node.replica = -1;
          break;
        case 4:
          if (node.replica >= 0 || !replica.alive) break;
          node.replica = static_cast<int>(which);
          // The rotation did not wait for a proxy that was away for longer than its leaf lived: its
          // connections are lost, and made again with what it is given.
          if (node.leaf_ends <= it.now) node.accepts.clear();
          break;
        case 5:
        case 6:
          if (node.replica >= 0) sync(node);
          break;
        case 7:
          it.now += pick(50) == 0 ? kLeaf : seconds(pick(3600));
          for (Node& each : nodes)  // those connected renew long before the end
            if (each.replica >= 0 && each.leaf_ends <= it.now) sync(each);
          break;
        default: {
          const std::string before = signer(it.records);
          const std::size_t held = trusted(it.records).size();
          const std::size_t names_held = allowed(it.records).size();
          it.evidence = look();
          it.step();
          rotations += signer(it.records) != before;
          dropped += trusted(it.records).size() < held;
          moved += allowed(it.records).size() < names_held;
        }
      }
      REQUIRE_FALSE(signer(it.records).empty());
      for (const Node& one : nodes)
        for (const Node& other : nodes)
          if (one.leaf_ends > it.now && other.leaf_ends > it.now) {
            CAPTURE(i);
            REQUIRE(one.trusts.contains(other.leaf));
            REQUIRE(one.accepts.contains(domain_of(other.leaf)));
            REQUIRE(one.allows.contains(other.shown));
          }
    }
    CHECK(rotations > 10);  // it did not only wait: in 50,000 events 35, 65 and 17 are usual
    CHECK(dropped > 10);
    CHECK(moved > 0);
  }
}

}  // namespace
