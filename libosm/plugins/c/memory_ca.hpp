// A CA in memory: a new one, or the one that the host gave.
#pragma once

#include <optional>
#include <string>

#include "osm/certificate/ca_store.hpp"

namespace osm::inline v1::c {

// Thread: one at a time. Blocking: no.
class MemoryCa final : public certificate::CaStore {
 public:
  std::string name() const override { return "the CA in memory"; }
  Result<std::optional<certificate::PrivateKey>> load() override {
    if (pem_.empty()) return std::optional<certificate::PrivateKey>();
    return std::optional(certificate::PrivateKey(pem_));
  }
  Status create(const certificate::PrivateKey& pem) override {
    if (pem_.empty()) pem_ = SecretBytes(pem.pem());
    return {};
  }

 private:
  SecretBytes pem_;
};

}  // namespace osm::inline v1::c
