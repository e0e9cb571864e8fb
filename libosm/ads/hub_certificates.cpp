// Progress of proxies' certificates, as root rotation asks for it; members of Hub.
#include <vector>

#include "ads/hub.hpp"

namespace osm::inline v1::ads {

// A proxy's content may come from a previous replica that knew fewer trust domains.
void Hub::note_domains(const model::MeshSnapshot* before) {
  const auto& accepted = snapshot_->accepted_domains;
  const auto& allowed = snapshot_->allowed_domains;
  const bool others =
      before ? before->accepted_domains != accepted || before->allowed_domains != allowed
             : accepted.size() > 1 || allowed.size() > 1;
  if (others) domains_changed_ = snapshot_->generation;
}

// True if it applied configuration that names the peers of `domains`.
bool Hub::has_domains(const Stream& stream, const TrustDomains& domains) const {
  return snapshot_->accepted_domains == domains.accepted &&
         snapshot_->allowed_domains == domains.allowed && applied(stream) >= domains_changed_;
}

model::CertificateProgress Hub::certificate_progress(const model::CertificateGoal& goal) const {
  constexpr std::size_t kNamed = 10;
  const Digest bundle = digest_of(goal.trust_bundle_pem);
  model::CertificateProgress progress;
  if (!snapshot_) {  // the mesh's workloads are not known
    progress.bundle_lag = progress.leaf_lag = 1;
    progress.lagging = {"the mesh is not read yet"};
    return progress;
  }
  progress.workloads = snapshot_->workloads.size();
  progress.proxies = serving_.size();
  for (const auto& [key, id] : serving_) {
    const Stream& stream = streams_.at(id);
    const SecretFacts* facts = classes_.secret_facts(stream.proxy_class->proxy_class().identity);
    // A proxy that has not asked for secrets may hold some from before, until its whole content is
    // known.
    const bool holds_none = stream.settled && stream.session->state(XdsType::kSecret).state ==
                                                  SyncState::kNotSubscribed;
    const bool newest = facts && (holds_none || stream.session->holds_newest(XdsType::kSecret));
    const bool trusts =
        newest && classes_.trust_bundle() == bundle && has_domains(stream, goal.trust_domains);
    const TrustDomain& signing = goal.trust_domains.signing;
    const bool of_signer =
        newest && facts->issuer_id == goal.issuer_id && facts->trust_domain == signing &&
        stream.peer.issuer_key_id == goal.issuer_key_id && stream.peer.trust_domain == signing;
    progress.bundle_lag += !trusts;
    progress.leaf_lag += !of_signer;
    if (!(trusts && of_signer) && progress.lagging.size() < kNamed)
      progress.lagging.push_back(stream.workload->workload.name.str());
  }
  return progress;
}

void Hub::recall(const std::string& issuer_key_id) {
  std::vector<StreamId> old;
  for (const auto& [key, id] : serving_)
    if (streams_.at(id).peer.issuer_key_id != issuer_key_id) old.push_back(id);
  for (StreamId id : old)
    close(id, CloseCode::kUnavailable,
          "its proxy certificate is of a root that is being replaced; reconnect with a newer one");
}

}  // namespace osm::inline v1::ads
