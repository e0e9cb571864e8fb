#include "osm/certificate/ca_store.hpp"

#include "certificate/local_issuer.hpp"

namespace osm::inline v1::certificate {
namespace {

constexpr int kMaxAttempts = 3;

// The CA is of interest, not its names: any trust domain will do.
Result<std::unique_ptr<Issuer>> read_ca(const PrivateKey& pem, const Clock& clock) {
  return make_local_issuer(pem.pem(), TrustDomain("cluster.local"), clock);
}

// The end of a remedy: the steps with which a mesh gets another CA.
std::string begin_anew(const CaOptions& options) {
  const std::string& record = options.known.record;
  return "move it away" + (record.empty() ? "" : ", delete " + record) +
         " and bootstrap every proxy anew";
}

// A new CA in the place of a lost one would cut off every proxy.
Error lost(const CaOptions& options, const std::string& problem) {
  return {ErrorCode::kNotFound, options.store.name() + ' ' + problem + ", and " +
                                    options.known.record +
                                    " says that the mesh trusts it: restore it from a backup. To "
                                    "begin with another CA, delete " +
                                    options.known.record + " and bootstrap every proxy anew"};
}

bool is_known(const CaOptions& options, const Issuer& issuer) {
  const std::string& known = options.known.bundle_pem;
  return known.empty() || known == issuer.trust_bundle_pem();
}

}  // namespace

Result<std::unique_ptr<Issuer>> load_or_create_ca(const CaOptions& options) {
  CaStore& store = options.store;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    OSM_TRY(const std::optional<PrivateKey> pem, store.load());
    if (pem) {
      auto issuer = make_local_issuer(pem->pem(), options.trust_domain, options.clock);
      if (!issuer)
        return issuer.error().with_context(store.name() + " (restore it from a backup, or " +
                                           begin_anew(options) + ")");
      if (!is_known(options, **issuer)) return lost(options, "was replaced by another CA");
      return issuer;
    }
    if (!options.known.bundle_pem.empty()) return lost(options, "is gone");
    OSM_TRY(const PrivateKey created, make_root_pem(options.clock));
    OSM_TRY(store.create(created));
  }
  return Error{ErrorCode::kStorage, store.name() +
                                        ": disappears while it is created: something else removes "
                                        "it"};
}

Status import_ca(const CaOptions& options, const PrivateKey& pem) {
  CaStore& store = options.store;
  const auto ca = read_ca(pem, options.clock);
  if (!ca) return ca.error().with_context("the CA to import");
  OSM_TRY(std::optional<PrivateKey> held, store.load());
  if (!held) {
    if (!is_known(options, **ca)) return lost(options, "is gone, the CA to import is another one");
    if (Status created = store.create(pem); !created) return created;
    OSM_TRY(held, store.load());  // another process may have been first
  }
  if (held)
    if (const auto present = read_ca(*held, options.clock);
        present.ok() && (*present)->id() == (*ca)->id())
      return {};
  return Error{ErrorCode::kAlreadyExists,
               store.name() +
                   " holds another CA, which proxies may trust already: rotate to the new one with "
                   "a MeshRootCertificate, or " +
                   begin_anew(options)};
}

}  // namespace osm::inline v1::certificate
