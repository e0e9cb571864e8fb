// Answers of a controller about the machine shop/web-1.
#pragma once

namespace osm::inline v1::machine {

inline constexpr const char* kSubject = R"({"name": "web-1", "namespace": "shop",
  "common_name": "5f9e1d2c-0000-4000-8000-000000000001.web.shop",
  "spiffe_id": "spiffe://cluster.local/osm/proxy/5f9e1d2c-0000-4000-8000-000000000001/shop/web",
  "key_algorithm": "ECDSA", "rsa_key_bits": 2048})";
inline constexpr const char* kAnswer = R"({"uuid": "5f9e1d2c-0000-4000-8000-000000000001",
  "common_name": "5f9e1d2c-0000-4000-8000-000000000001.web.shop",
  "served_until": "2026-01-31T00:00:00Z", "not_after": "2026-04-30T00:00:00Z",
  "files": [{"name": "sds_cert.pem", "mode": 384, "proxys": true, "content": "certificate"},
            {"name": "hosts", "mode": 420, "proxys": false, "content": "names"}]})";

}  // namespace osm::inline v1::machine
