// Allocates the virtual addresses of Services that have no spec.clusterIP (ADR 0064).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::spec {

// An IPv4 network whose addresses belong to Services of the mesh.
class ServiceNetwork {
 public:
  // `text`: "240.240.0.0/12". Failure: kInvalidArgument with the remedy.
  static Result<ServiceNetwork> parse(const std::string& text);

  // The addresses that a Service asks for, in order. They follow from its name.
  struct Sequence {
    std::uint32_t start = 0;
    std::uint32_t step = 1;  // odd
  };
  static Sequence sequence_of(const ServiceName& service);

  // Number of its addresses, without the first and the last one.
  std::uint32_t usable() const { return size_ - 2; }
  // True for these.
  bool gives(std::uint32_t address) const {
    return address > first_ && address - first_ < size_ - 1;
  }
  // The `turn`-th address of the sequence. Each address of the network has one turn of `size`.
  std::uint32_t candidate(const Sequence& sequence, std::uint32_t turn) const {
    return first_ + ((sequence.start + turn * sequence.step) & (size_ - 1));
  }
  const std::string& text() const { return text_; }

 private:
  ServiceNetwork(std::string text, std::uint32_t first, std::uint32_t size)
      : text_(std::move(text)), first_(first), size_(size) {}

  std::string text_;
  std::uint32_t first_;
  std::uint32_t size_;  // a power of two
};

// The allocated addresses. They follow from the names and the written addresses of the present
// Services, and from the ages of those with written ones, so all replicas of one store agree,
// before and after a restart. Thread: one at a time.
class VirtualAddresses {
 public:
  // A Service whose address another one took.
  struct Move {
    ServiceName service;
    std::string from;
    std::string to;
  };

  // `network`: as ServiceNetwork::parse(); anything else allocates nothing.
  explicit VirtualAddresses(const std::string& network = {});

  bool allocates() const { return network_.has_value(); }
  // Gives an address to each Service that has none and is not headless. `services` is ordered by
  // name. A written address that a Service without one would get belongs to the older of the two,
  // else to the written one: the other Service gets another address, or loses the written one, with
  // a problem. A Service without a free address is left out, with a problem. An unchanged Service
  // keeps its pointer. Result: Services that moved.
  std::vector<Move> settle(SharedList<Service>& services, std::vector<Problem>& problems);

 private:
  struct Given {
    ServiceNetwork::Sequence sequence;
    std::shared_ptr<const Service> written;
    std::shared_ptr<const Service> service;  // with its address
  };
  // A taken address: the oldest Service that has written it, or the one that it was given to.
  struct Holder {
    std::shared_ptr<const Service> service;
    bool given = false;
  };
  using Taken = std::unordered_map<std::uint32_t, Holder>;

  Taken written_in(const SharedList<Service>& services) const;
  std::shared_ptr<const Service> addressed(const std::shared_ptr<const Service>& written,
                                           Given& given, Taken& taken) const;
  void refuse_taken(SharedList<Service>& services, const Taken& taken,
                    std::vector<Problem>& problems);

  std::optional<ServiceNetwork> network_;
  std::map<ServiceName, Given> given_;
  // Services whose written address belongs to another one.
  std::map<ServiceName, Given> refused_;
};

}  // namespace osm::inline v1::spec
