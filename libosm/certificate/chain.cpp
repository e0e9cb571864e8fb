#include <algorithm>
#include <chrono>

#include "certificate/x509.hpp"

namespace osm::inline v1::certificate::x509 {
namespace {

using openssl::failure;
using openssl::issued;
using openssl::X509Handle;
using Chain = std::span<const X509Handle>;

using Store = openssl::Handle<X509_STORE, X509_STORE_free>;
using StoreContext = openssl::Handle<X509_STORE_CTX, X509_STORE_CTX_free>;
using Stack = openssl::Handle<STACK_OF(X509), [](STACK_OF(X509) * list) { sk_X509_free(list); }>;

constexpr int kSecurityLevel = 2;  // 112 bits: RSA-2048, SHA-256

// "certificate 2 of 3 (/CN=mesh root)"
std::string nth(Chain chain, std::size_t i) {
  char name[256] = {};
  X509_NAME_oneline(X509_get_subject_name(chain[i].get()), name, sizeof name);
  return "certificate " + std::to_string(i + 1) + " of " + std::to_string(chain.size()) + " (" +
         in_quotes(name) + ")";
}

Error refused(Chain chain, std::size_t i, const std::string& why) {
  return {ErrorCode::kInvalidCertificate, nth(chain, i) + ' ' + why};
}

Status check_ca(Chain chain, std::size_t i, WallTime now) {
  X509& certificate = *chain[i];
  if (X509_check_ca(&certificate) != 1 ||
      (X509_get_key_usage(&certificate) & KU_KEY_CERT_SIGN) == 0)
    return refused(chain, i, "is not a CA (basicConstraints CA:TRUE, keyUsage keyCertSign)");
  if (now >= not_after(certificate))
    return Error{ErrorCode::kCertificateExpired, nth(chain, i) + " has expired: renew it first"};
  if (now < not_before(certificate))
    return refused(chain, i, "is not valid yet: check this machine's clock");
  return {};
}

// Checks the path length limit against the CAs below.
Status check_room(Chain chain, std::size_t i) {
  const long room = X509_get_pathlen(chain[i].get());  // -1: without limit
  if (room >= 0 && static_cast<std::size_t>(room) < i)
    return refused(chain, i,
                   "allows " + std::to_string(room) + " CAs below it (pathlen) and has " +
                       std::to_string(i) + ": have it issued with room for them");
  return {};
}

Status check_link(Chain chain, std::size_t i) {
  X509& certificate = *chain[i];
  const bool last = i + 1 == chain.size();
  if (X509_self_signed(&certificate, 1) == 1)
    return last ? Status()
                : refused(chain, i, "is a root and not the last: give one chain, with one root");
  if (!last && issued(*chain[i + 1], certificate)) return {};
  if (std::any_of(chain.begin(), chain.end(),
                  [&](const X509Handle& other) { return issued(*other, certificate); }))
    return refused(chain, i,
                   "is not followed by the one that issued it: put the signing "
                   "certificate first, its issuers in their order, the root last");
  return refused(chain, i, "has no issuer in the chain: append the certificates up to the root");
}

}  // namespace

Result<std::vector<X509Handle>> verified_chain(X509& leaf, Chain between, Chain roots,
                                               WallTime now) {
  const Store store(X509_STORE_new());
  const StoreContext context(X509_STORE_CTX_new());
  const Stack others(sk_X509_new_null());
  if (!store || !context || !others) return failure("X509_STORE_new");
  for (const X509Handle& root : roots)
    if (X509_STORE_add_cert(store.get(), root.get()) != 1) return failure("X509_STORE_add_cert");
  for (const X509Handle& each : between)
    if (sk_X509_push(others.get(), each.get()) <= 0) return failure("sk_X509_push");
  if (X509_STORE_CTX_init(context.get(), store.get(), &leaf, others.get()) != 1)
    return failure("X509_STORE_CTX_init");
  X509_VERIFY_PARAM* param = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_time(
      param, std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count());
  X509_VERIFY_PARAM_set_auth_level(param, kSecurityLevel);
  if (X509_verify_cert(context.get()) != 1)
    return Error{ErrorCode::kInvalidCertificate,
                 X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()))};
  const STACK_OF(X509)* built = X509_STORE_CTX_get0_chain(context.get());
  std::vector<X509Handle> chain;
  for (int i = 0; i < sk_X509_num(built); ++i) {
    X509* each = sk_X509_value(built, i);
    if (X509_up_ref(each) != 1) return failure("X509_up_ref");
    chain.emplace_back(each);
  }
  return chain;
}

Status check_ca_chain(Chain chain, WallTime now) {
  for (std::size_t i = 0; i < chain.size(); ++i)
    if (Status checked = check_ca(chain, i, now); !checked) return checked;
  for (std::size_t i = 0; i < chain.size(); ++i)
    if (Status checked = check_link(chain, i); !checked) return checked;
  for (std::size_t i = 0; i < chain.size(); ++i)
    if (Status checked = check_room(chain, i); !checked) return checked;
  const auto verified = verified_chain(*chain.front(), chain.subspan(1), chain.last(1), now);
  if (!verified) return refused(chain, 0, "is not accepted: " + verified.error().message);
  return {};
}

}  // namespace osm::inline v1::certificate::x509
