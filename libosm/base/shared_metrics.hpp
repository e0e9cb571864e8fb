// Metrics that several rooms record.
#pragma once

#include "osm/metrics.hpp"

namespace osm::inline v1 {

inline constexpr Histogram kPushStage{
    "osm_push_stage_seconds", "Seconds a push spends in each stage", {"stage"}};
inline constexpr Gauge kQueueLength{
    "osm_queue_length", "Entries that wait in a queue, by queue", {"queue"}};
inline constexpr Gauge kLeaseHeld{
    "osm_lease_held", "1 while this replica writes for all and takes the steps of root rotations"};
inline constexpr Counter kReplicaBoardWrites{"osm_replica_board_writes_total",
                                             "Writes of this replica to the board of replicas"};
inline constexpr Gauge kReplicas{"osm_replicas",
                                 "Live replicas of the controller, as this one sees them"};

}  // namespace osm::inline v1
