#include "root_rotation/next_step.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/maps.hpp"

namespace osm::inline v1::root_rotation {
namespace {

// In the order of RootState.
constexpr std::array<std::string_view, 6> kStates{"inactive", "trusted",  "validating",
                                                  "signing",  "draining", "closing"};
static_assert(static_cast<std::size_t>(RootState::kClosing) + 1 == kStates.size());

// Proxies that a step goes on without after `max_wait`: at most so many, or one in a hundred of the
// workloads. A thief has the keys of a few proxies; when many are missing, something is out of
// order that time may mend.
constexpr std::size_t kFew = 10;

class Step {
 public:
  explicit Step(const RotationInput& input) : in_(input) {
    for (const RootRecord& record : in_.records) roots_[record.name] = record;
    for (const RootWish& wish : in_.wishes) wishes_[wish.name] = &wish;
    for (const auto& [name, wish] : wishes_)
      roots_.try_emplace(name, RootRecord{.name = name,
                                          .since = in_.now,
                                          .first_seen = in_.now,
                                          .trust_domain = wish->trust_domain});
  }

  Result<std::vector<RootRecord>> distrust(const std::string& name) {
    const auto at = roots_.find(name);
    if (at == roots_.end())
      return Error{ErrorCode::kNotFound, "root " + name + ": `osm certificate status` lists all"};
    RootRecord& root = at->second;
    const bool signed_until_now = root.state == RootState::kSigning;
    root.distrusted_at = in_.now;
    if (root.state != RootState::kInactive) enter(root, RootState::kInactive);
    if (signed_until_now) {
      const std::string next = next_signer(nullptr);
      if (next.empty())
        return Error{ErrorCode::kInvalidArgument,
                     "root " + name +
                         " signs, and no other root can: declare another active "
                         "MeshRootCertificate first (`osm certificate rotate` on machines)"};
      if (!is_trusted(roots_[next].state)) learn_bundle(roots_[next]);
      enter(roots_[next], RootState::kSigning);
    }
    return records();
  }

  RotationStep take() {
    const RootRecord* signing = find(RootState::kSigning);
    const std::string target = next_signer(signing);
    const bool moved = follow_wishes(signing, target);
    // After a change of the trusted roots the evidence is out of date.
    if (!moved) {
      note_followed();
      if (!sign(target)) drain();
    }
    return {records(), std::move(waiting_)};
  }

 private:
  std::vector<RootRecord> records() {
    std::vector<RootRecord> records;
    for (auto& [name, root] : roots_)
      if (root.state != RootState::kInactive || wishes_.contains(name))
        records.push_back(std::move(root));
    return records;
  }

  const RootWish* wish(const std::string& name) const {
    const auto* wanted = find_in(wishes_, name);
    return wanted ? *wanted : nullptr;
  }
  RootRole role(const std::string& name) const {
    const RootWish* wanted = wish(name);
    return wanted && !is_distrusted(name) ? wanted->role : RootRole::kInactive;
  }

  bool is_distrusted(const std::string& name) const {
    const RootRecord* root = find_in(roots_, name);
    return root && root->distrusted_at != WallTime{};
  }

  RootRecord* find(RootState state) {
    for (auto& [name, root] : roots_)
      if (root.state == state) return &root;
    return nullptr;
  }

  void enter(RootRecord& root, RootState state) {
    root.state = state;
    root.since = in_.now;
    root.followed_at = {};
    root.left_behind.clear();
    if (state == RootState::kSigning) root.signed_at = in_.now;
    if (!is_trusted(state)) root.bundle_pem.clear();
  }

  // Result: the newest active root that can sign; the present one if there is none.
  std::string next_signer(const RootRecord* signing) {
    const RootRecord* newest = nullptr;
    for (const auto& [name, root] : roots_) {
      if (is_distrusted(name)) {
        waiting_[name] = "it was distrusted: delete its MeshRootCertificate, if it has one";
        continue;
      }
      const RootWish* wanted = wish(name);
      if (!wanted || wanted->role != RootRole::kActive) continue;
      if (wanted->bundle_pem.empty() && &root != signing) {
        waiting_[name] = wanted->fault;
        continue;
      }
      if (!newest ||
          std::pair(root.first_seen, root.name) > std::pair(newest->first_seen, newest->name))
        newest = &root;
    }
    if (newest) return newest->name;
    if (!signing) return {};
    waiting_[signing->name] =
        "it is the only one that can sign, and goes on: make another MeshRootCertificate active";
    return signing->name;
  }

  // Takes the steps that need no evidence: to trust a root, and to begin to drain one.
  // Result: true if a state changed.
  bool follow_wishes(const RootRecord* signing, const std::string& target) {
    bool moved = false;
    for (auto& [name, root] : roots_) {
      const RootState before = root.state;
      if (&root == signing) {
        notice_other_bundle(root);
        continue;
      }
      follow_wish(root, signing != nullptr, name == target);
      moved = moved || root.state != before;
    }
    return moved;
  }

  void follow_wish(RootRecord& root, bool somebody_signs, bool is_target) {
    const bool trusted = is_trusted(root.state);
    const bool wanted = role(root.name) != RootRole::kInactive;
    if (!trusted) {
      if (!wanted || !learn_bundle(root)) return;
      // If no root signs yet, no certificate is in use, and the first one may sign at once.
      enter(root, !is_target       ? RootState::kTrusted
                  : somebody_signs ? RootState::kValidating
                                   : RootState::kSigning);
    } else if (!wanted && root.signed_at == WallTime{}) {
      // No certificate of the mesh needs it: its trust ends now. Names of its domain may be older
      // than this root: another one of the domain may have signed before.
      enter(root, is_last_of_its_domain(root) ? RootState::kClosing : RootState::kInactive);
    } else if (!wanted) {
      if (root.state != RootState::kDraining) enter(root, RootState::kDraining);
    } else if (is_target) {
      if (root.state != RootState::kValidating) enter(root, RootState::kValidating);
    } else if (root.state != RootState::kTrusted) {
      enter(root, RootState::kTrusted);
    }
    if (is_trusted(root.state)) notice_other_bundle(root);
  }

  bool learn_bundle(RootRecord& root) {
    const RootWish& wanted = *wish(root.name);
    if (wanted.bundle_pem.empty()) {
      waiting_[root.name] = wanted.fault;
      return false;
    }
    root.bundle_pem = wanted.bundle_pem;
    root.trust_domain = wanted.trust_domain;
    return true;
  }

  // A CA that was exchanged under an unchanged object is reported and not trusted.
  void notice_other_bundle(const RootRecord& root) {
    const RootWish* wanted = wish(root.name);
    if (wanted && !wanted->bundle_pem.empty() && wanted->bundle_pem != root.bundle_pem)
      waiting_[root.name] =
          "its CA has another certificate than before, which nobody trusts: create another "
          "MeshRootCertificate for it";
    if (wanted && wanted->trust_domain != root.trust_domain)
      waiting_[root.name] = "it stays one of trust domain " + root.trust_domain.str() +
                            ": set its spec.trustDomain back, and create another "
                            "MeshRootCertificate for " +
                            wanted->trust_domain.str();
  }

  // A replica that did not act on this state yet may have sent a proxy, just before it
  // disconnected, certificates of the state before.
  void note_followed() {
    if (!in_.evidence.complete) return;
    for (auto& [name, root] : roots_)
      if (root.state != RootState::kInactive && root.followed_at == WallTime{})
        root.followed_at = in_.now;
  }

  // True if `missing` proxies no longer hold the step. Time counts from when every replica acts on
  // the state, so a proxy gains nothing by connecting again.
  bool outwaited(const RootRecord& root, std::size_t missing) const {
    const RotationEvidence& seen = in_.evidence;
    if (missing == 0) return true;
    if (root.followed_at == WallTime{}) return false;
    const bool few = !seen.young && missing <= std::max(kFew, seen.workloads / 100);
    const auto bound = few ? std::min(in_.max_wait, in_.longest_leaf) : in_.longest_leaf;
    return in_.now - root.followed_at >= bound ||
           (root.state == RootState::kDraining && root.latest_not_after != WallTime{} &&
            root.latest_not_after <= in_.now);
  }

  static void append(std::string& text, std::size_t count, std::string_view what) {
    if (count == 0) return;
    if (!text.empty()) text += ", ";
    text += std::to_string(count) + ' ' + std::string(what);
  }

  // The text of the evidence that is missing for the next state; empty: none. Sets left_behind_.
  std::string missing(const RootRecord& root, bool of_leaves) {
    const RotationEvidence& seen = in_.evidence;
    if (!seen.complete) return "waits for " + seen.waiting_for;
    std::string own, proxies;
    if (of_leaves) {
      append(own, seen.own_lag, "certificates of the control plane");
      append(proxies, seen.leaf_lag, "proxies with a certificate of another root");
    }
    append(proxies, seen.bundle_lag,
           is_last_of_its_domain(root) ? "proxies without the newest trust bundle and trust domains"
                                       : "proxies without the newest trust bundle");
    append(proxies, seen.absent, "workloads whose proxy is not connected");
    if (!seen.lagging.empty() && !proxies.empty()) proxies += " (" + seen.lagging + ")";
    if (outwaited(root, (of_leaves ? seen.any_lag : seen.bundle_lag) + seen.absent)) {
      left_behind_ = std::move(proxies);
      proxies.clear();
    }
    if (own.empty() && proxies.empty()) return {};
    return "waits for " + own + (own.empty() || proxies.empty() ? "" : ", ") + proxies;
  }

  // For people: `root` signs, and the step before was taken without these.
  void note_left_behind(RootRecord* root) {
    if (root && !left_behind_.empty()) root->left_behind = std::move(left_behind_);
  }

  // Result: true if another root signs now.
  bool sign(const std::string& target) {
    RootRecord* next = find(RootState::kValidating);
    if (!next || next->name != target) return false;
    if (std::string why = missing(*next, false); !why.empty()) {
      waiting_[next->name] = std::move(why);
      return false;
    }
    if (RootRecord* signing = find(RootState::kSigning))
      enter(*signing, role(signing->name) == RootRole::kInactive ? RootState::kDraining
                                                                 : RootState::kTrusted);
    enter(*next, RootState::kSigning);
    note_left_behind(next);
    return true;
  }

  void drain() {
    const bool one_validates = find(RootState::kValidating) != nullptr;
    for (auto& [name, root] : roots_) {
      const bool drains = root.state == RootState::kDraining;
      if (!drains && root.state != RootState::kClosing) continue;
      std::string why =
          one_validates && drains ? "waits until another root signs" : missing(root, drains);
      if (!why.empty()) {
        waiting_[name] = std::move(why);
        continue;
      }
      enter(root,
            drains && is_last_of_its_domain(root) ? RootState::kClosing : RootState::kInactive);
      note_left_behind(find(RootState::kSigning));
      return;  // the evidence is out of date now
    }
  }

  // True if no other trusted root is of its domain. Names of that domain begin, or cease, to be
  // admitted with this root.
  bool is_last_of_its_domain(const RootRecord& root) const {
    return std::none_of(roots_.begin(), roots_.end(), [&](const auto& entry) {
      const RootRecord& other = entry.second;
      return &other != &root && is_trusted(other.state) && other.trust_domain == root.trust_domain;
    });
  }

  const RotationInput& in_;
  std::map<std::string, RootRecord> roots_;
  std::map<std::string, const RootWish*> wishes_;
  std::map<std::string, std::string> waiting_;
  std::string left_behind_;  // for people: the proxies without which the next step is taken
};

}  // namespace

std::string_view root_state_text(RootState state) {
  return kStates.at(static_cast<std::size_t>(state));
}

bool is_trusted(RootState state) {
  return state != RootState::kInactive && state != RootState::kClosing;
}

const RootRecord* find(const std::vector<RootRecord>& records, RootState state) {
  const auto at = std::ranges::find(records, state, &RootRecord::state);
  return at == records.end() ? nullptr : &*at;
}

bool in_motion(const std::vector<RootRecord>& records) {
  return find(records, RootState::kValidating) || find(records, RootState::kDraining) ||
         find(records, RootState::kClosing);
}

std::optional<RootState> root_state_of(std::string_view text) {
  const auto* const at = std::find(kStates.begin(), kStates.end(), text);
  if (at == kStates.end()) return std::nullopt;
  return static_cast<RootState>(at - kStates.begin());
}

RotationStep next_step(const RotationInput& input) { return Step(input).take(); }

Result<std::vector<RootRecord>> distrust(const RotationInput& input, const std::string& name) {
  return Step(input).distrust(name);
}

}  // namespace osm::inline v1::root_rotation
