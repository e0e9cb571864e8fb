// Requests of strangers and answers of CAs: what is taken says exactly the subject's names, and a
// CA that signs it is believed; whatever comes, OpenSSL's error queue stays empty.
//
//   input: '0', then a PEM request; '1', then DER of one; '2', then a PEM chain as a CA's answer.
#include <openssl/pem.h>

#include <algorithm>

#include "certificate/local_issuer.hpp"
#include "certificate/x509.hpp"
#include "fuzz/fuzz.hpp"
#include "osm/certificate/request.hpp"
#include "osm/runtime/system.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace x509 = certificate::x509;

const certificate::Subject kBuyer{CommonName("buyer.shop.cluster.local"),
                                  SpiffeId("spiffe://cluster.local/ns/shop/sa/buyer"),
                                  certificate::Usage::kWorkload};
constexpr std::chrono::hours kDay{24};

std::string pem_of(std::string_view der) {
  const openssl::Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio(bio.get(), PEM_STRING_X509_REQ, "",
                reinterpret_cast<const unsigned char*>(der.data()), static_cast<long>(der.size()));
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  ERR_clear_error();
  return {data, static_cast<std::size_t>(size)};
}

void require_clean_queue() {
  require(ERR_peek_error() == 0, "OpenSSL's error queue is left empty");
}

void require_printable(const Error& error) {
  require(std::all_of(error.message.begin(), error.message.end(),
                      [](char c) { return c >= ' ' && c <= '~'; }),
          "an error is printable", error.message);
}

struct Ca {
  SystemClock clock;
  std::unique_ptr<certificate::Issuer> issuer =
      certificate::make_local_issuer(certificate::make_root_pem(clock).value().pem(),
                                     TrustDomain("cluster.local"), clock)
          .value();
};

Ca& ca() {
  static Ca made;
  return made;
}

void read_request(const std::string& pem) {
  const Status checked = certificate::check_request(kBuyer, pem);
  require_clean_queue();
  if (!checked.ok()) {
    require(checked.error().code == ErrorCode::kInvalidArgument, "a refusal says its kind");
    require_printable(checked.error());
    return;
  }
  const auto chain = ca().issuer->sign({kBuyer, pem, kDay});
  require(chain.ok(), "what was checked can be signed");
  require_clean_queue();
  const std::string bundle = ca().issuer->trust_bundle_pem();
  const auto taken = certificate::check_answer({kBuyer, pem, *chain, bundle, kDay}, ca().clock);
  require(taken.ok(), "an honest answer is taken");
  require_clean_queue();
  const auto leaf = x509::parse_certificate(taken->chain_pem);
  require(leaf.ok() && x509::same_names(x509::alternative_names(**leaf), kBuyer),
          "a leaf says the subject's names");
}

void read_answer(const std::string& chain) {
  static const certificate::KeyAndRequest asked = certificate::make_request(kBuyer).value();
  const std::string bundle = ca().issuer->trust_bundle_pem();
  const auto taken =
      certificate::check_answer({kBuyer, asked.request_pem, chain, bundle, kDay}, ca().clock);
  require_clean_queue();
  require(!taken.ok(), "nobody else signs for this CA");
  require_printable(taken.error());
}

void run(Choices choices) {
  const std::size_t kind = choices.below(3);
  const std::string text(choices.rest());
  if (kind == 2) return read_answer(text);
  read_request(kind == 1 ? pem_of(text) : text);
}

const bool kAdded = add("request", [](std::string_view input) { run(Choices(input)); });

}  // namespace
