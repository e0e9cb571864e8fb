// A MeshSpec for hosts that make whole states of it: publish() finds the differences.
#pragma once

#include <memory>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/mesh_spec.hpp"

namespace osm::inline v1::spec {

class OSM_API PublishedSpec : public MeshSpec {
 public:
  // Empty and not synced.
  PublishedSpec();
  ~PublishedSpec() override;

  // The next state, as a whole; namespaces may be in any order. Values that equal the former ones
  // keep the former pointers, and so do tables. Subscribers run in this call; without a difference
  // there is none. Thread: one at a time. Blocking: for the subscribers' callbacks.
  void publish(SpecSnapshot next, std::vector<Problem> problems = {});

  std::shared_ptr<const SpecSnapshot> snapshot() const override;
  std::vector<Problem> list_problems() const override;
  Subscription subscribe(std::function<void(const SpecChange& change)> on_change) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace osm::inline v1::spec
