// Writes state and message into the status of MeshRootCertificates. One replica at a time writes,
// only changes, once a second at most.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/rate_limit.hpp"
#include "base/round.hpp"
#include "base/strand.hpp"
#include "kubernetes/client/api.hpp"
#include "osm/kubernetes/upkeep.hpp"

namespace osm::inline v1::kubernetes {

class RootStatusWriter {
 public:
  // `may_write` is true on the writing replica. Precondition: options.roots.
  RootStatusWriter(const UpkeepOptions& options, std::function<bool()> may_write);
  // Blocking: until a running call of the API has returned.
  ~RootStatusWriter() { strand_.stop(); }

 private:
  struct Said {
    std::string uid;  // a new object of the same name has no status
    std::string state;
    std::string message;

    friend bool operator==(const Said&, const Said&) = default;
  };

  void write_all();
  bool write(const std::string& name, const Said& said);

  Api& api_;
  const Runtime runtime_;
  const RootsUpkeep roots_;
  const std::string ns_;
  const std::function<bool()> may_write_;

  // On the strand.
  std::map<std::string, Said> written_;
  RateLimit budget_;
  Strand strand_;
  Round round_;
};

}  // namespace osm::inline v1::kubernetes
