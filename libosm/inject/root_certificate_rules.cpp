#include "inject/root_certificate_rules.hpp"

#include <string>
#include <utility>

namespace osm::inline v1::inject {
namespace {

// One CA and its successor.
constexpr std::size_t kMostInUse = 2;

bool in_use(const MeshRootCertificate* root) {
  return root != nullptr && root->role != RootRole::kInactive;
}

bool active(const MeshRootCertificate* root) {
  return root != nullptr && root->role == RootRole::kActive;
}

}  // namespace

std::vector<Problem> check_change(const RootCertificateChange& change,
                                  const SharedList<MeshRootCertificate>& declared) {
  const auto& [key, before, after] = change;
  std::vector<Problem> problems;
  const auto refuse = [&problems, &key = key](const char* field, std::string cause) {
    problems.push_back({ErrorCode::kInvalidField, key, "", 0, field, std::move(cause)});
  };
  if (before != nullptr && after != nullptr) {
    if (before->trust_domain != after->trust_domain)
      refuse(
          "spec.trustDomain",
          "cannot be changed from " +
              (before->trust_domain == TrustDomain() ? "the mesh's" : before->trust_domain.str()) +
              "; declare another MeshRootCertificate");
    if (!(before->provider == after->provider))
      refuse("spec.provider",
             "cannot be changed: the mesh would lose the CA that it trusts; declare another "
             "MeshRootCertificate, and make this one inactive when that one signs");
  }

  std::string others;
  std::size_t others_in_use = 0;
  bool other_active = false;
  for (const auto& other : declared) {
    if (other->name == key.name || !in_use(other.get())) continue;
    others.append(others.empty() ? "" : ", ").append(other->name);
    ++others_in_use;
    other_active = other_active || active(other.get());
  }
  if (in_use(after) && !in_use(before) && others_in_use >= kMostInUse)
    refuse("spec.role",
           "at most two may be other than inactive, the CA and the one that takes "
           "over from it; make one of these inactive first: " +
               others);
  if (active(before) && !active(after) && !other_active)
    refuse(after == nullptr ? "" : "spec.role",
           "is the only active one, and the mesh needs a CA that signs; declare the next one "
           "active first, and wait until status.state of that one is signing");
  return problems;
}

}  // namespace osm::inline v1::inject
