// One issuance from key to checked certificate: what the manager does at every renewal.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "certificate/openssl.hpp"
#include "osm/certificate/issuer.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/certificate/request.hpp"
#include "osm/clock.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::certificate {

// The roots of a trust bundle, read anew only when its text is another: who issues more than once
// keeps one. Thread: any.
class TrustedRoots {
 public:
  using Roots = std::shared_ptr<const std::vector<openssl::X509Handle>>;

  // Failure: kInvalidCertificate.
  Result<Roots> of(const std::string& bundle_pem);

 private:
  std::mutex mutex_;
  std::string pem_;  // these two: guarded by mutex_
  Roots roots_;
};

// Result: a certificate over a new key, checked, its issuer_id what the issuer said before it
// signed: an id that changes meanwhile makes the certificate look older than it is, never newer.
// Failure: the issuer's; kInvalidArgument; kInvalidCertificate: it answered something else.
// Thread: any. Blocking: until the CA answers.
Result<Certificate> issue(Issuer& issuer, const Subject& subject, std::chrono::seconds validity,
                          const KeyParameters& parameters, const Clock& clock, TrustedRoots& roots);
Result<Certificate> issue(Issuer& issuer, const Subject& subject, std::chrono::seconds validity,
                          const KeyParameters& parameters, const Clock& clock);

// The same over the key of `request_pem`, which is checked first. The result's key is empty.
Result<Certificate> certify(Issuer& issuer, const Subject& subject, const std::string& request_pem,
                            std::chrono::seconds validity, const Clock& clock, TrustedRoots& roots);

// The steps, for a caller that has the key at hand: reading it from a request again takes longer
// than signing does. As make_request(), check_request() and check_answer() without one.
struct OwnRequest {
  openssl::Key key;
  std::string pem;
};
Result<OwnRequest> request_over_new_key(const Subject& subject, const KeyParameters& parameters);
Result<openssl::Request> checked_request(const Subject& subject, const std::string& request_pem);
// `asked`: the request's key.
Result<Certificate> check_answer(const Answer& answer, const EVP_PKEY& asked, const Clock& clock,
                                 TrustedRoots& roots);

}  // namespace osm::inline v1::certificate
