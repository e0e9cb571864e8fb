// One issuance, from the key to the checked certificate, as in every renewal of the manager.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/openssl.hpp"
#include "osm/certificate/issuer.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/certificate/request.hpp"
#include "osm/clock.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::certificate {

// The parsed roots of a trust bundle, parsed again only if its text changed; for callers that issue
// repeatedly. Thread: any.
class TrustedRoots {
 public:
  using Roots = std::shared_ptr<const std::vector<openssl::X509Handle>>;

  // Failure: kInvalidCertificate.
  Result<Roots> of(const std::string& bundle_pem);

 private:
  std::mutex mutex_;
  std::string pem_;  // this and the next: guarded by mutex_
  Roots roots_;
};

// Result: a checked certificate over a new key. Its issuer_id is the issuer's id before signing: if
// the id changes meanwhile, the certificate looks older than it is, never newer.
// Failure: the issuer's; kInvalidArgument; kInvalidCertificate (a wrong answer).
// Thread: any. Blocking: until the CA answers.
Result<Certificate> issue(Issuer& issuer, const Subject& subject, std::chrono::seconds validity,
                          const KeyParameters& parameters, const Clock& clock, TrustedRoots& roots);
Result<Certificate> issue(Issuer& issuer, const Subject& subject, std::chrono::seconds validity,
                          const KeyParameters& parameters, const Clock& clock);

// The same over the key of `request_pem`, which is checked first. The result's key is empty.
Result<Certificate> certify(Issuer& issuer, const Subject& subject, const std::string& request_pem,
                            std::chrono::seconds validity, const Clock& clock, TrustedRoots& roots);

// The steps for a caller that holds the key: reading it from a request again takes longer than
// signing. As make_request(), check_request() and check_answer() otherwise.
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
