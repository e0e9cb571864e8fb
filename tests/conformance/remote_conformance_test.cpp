// A provider behind gRPC passes every clause.
#include <doctest/doctest.h>

#include "conformance_run.hpp"
#include "remote_platform.hpp"

using namespace osm::testing;

TEST_SUITE("check_provider") {
  TEST_CASE("the remote provider passes over gRPC on a Unix socket") {
    passes(make_remote_platform);
  }
}
