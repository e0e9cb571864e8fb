// Lets tasks on a foreign executor borrow their owner: after close() none is inside and none
// enters.
#pragma once

#include <functional>
#include <memory>

#include "osm/detail/call_gate.hpp"

namespace osm::inline v1::ads {

class TaskGate {
 public:
  ~TaskGate() { close(); }

  // `task`, wrapped so that it does nothing once the gate is closed.
  std::function<void()> guard(std::function<void()> task) const {
    return [gate = gate_, task = std::move(task)] { gate->run(task); };
  }

  // Waits for the tasks inside. Not to be called by one of them.
  void close() { gate_->close(); }

 private:
  std::shared_ptr<detail::CallGate> gate_ = std::make_shared<detail::CallGate>();
};

}  // namespace osm::inline v1::ads
