// MeshConfig (config.openservicemesh.io/v1alpha2): the settings of the whole mesh that have effect.
#pragma once

#include <chrono>

namespace osm {

enum class KeyType { kEcdsaP256, kRsa };

struct MeshConfig {
  bool permissive = false;  // spec.traffic.enablePermissiveTrafficPolicyMode
  bool egress = false;      // spec.traffic.enableEgress
  std::chrono::seconds service_certificate_validity = std::chrono::hours(48);
  KeyType key_type = KeyType::kEcdsaP256;
  int rsa_key_bits = 2048;  // spec.certificate.certKeyBitSize; RSA only

  friend bool operator==(const MeshConfig&, const MeshConfig&) = default;
};

}  // namespace osm
