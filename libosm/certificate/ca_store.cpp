#include "osm/certificate/ca_store.hpp"

#include "certificate/local_issuer.hpp"

namespace osm::inline v1::certificate {
namespace {

constexpr int kMaxAttempts = 3;

// Accept any trust domain: only the CA's id is of interest.
Result<std::string> id_of(const PrivateKey& pem, const Clock& clock) {
  OSM_TRY(const auto issuer, make_local_issuer(pem.pem(), TrustDomain("cluster.local"), clock));
  return issuer->id();
}

}  // namespace

Result<std::unique_ptr<Issuer>> load_or_create_ca(const CaOptions& options) {
  CaStore& store = options.store;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    OSM_TRY(const std::optional<PrivateKey> pem, store.load());
    if (pem) {
      auto issuer = make_local_issuer(pem->pem(), options.trust_domain, options.clock);
      if (!issuer)
        return issuer.error().with_context(
            store.name() +
            " (restore it from a backup, or move it away and bootstrap every proxy anew)");
      return issuer;
    }
    OSM_TRY(const PrivateKey created, make_root_pem(options.clock));
    OSM_TRY(store.create(created));
  }
  return Error{ErrorCode::kStorage, store.name() +
                                        ": disappears while it is created: something else removes "
                                        "it"};
}

Status import_ca(CaStore& store, const PrivateKey& pem, const Clock& clock) {
  const auto id = id_of(pem, clock);
  if (!id) return id.error().with_context("the CA to import");
  OSM_TRY(std::optional<PrivateKey> held, store.load());
  if (!held) {
    if (Status created = store.create(pem); !created) return created;
    OSM_TRY(held, store.load());  // another process may have been first
  }
  const auto held_id = held ? id_of(*held, clock) : Result<std::string>(std::string());
  if (held_id.ok() && *held_id == *id) return {};
  return Error{
      ErrorCode::kAlreadyExists,
      store.name() +
          " holds another CA, which proxies may trust already: rotate to the new one with "
          "a MeshRootCertificate, or move the old one away and bootstrap every proxy anew"};
}

}  // namespace osm::inline v1::certificate
