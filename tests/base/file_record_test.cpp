#include <doctest/doctest.h>

#include "lib/replica_contracts.hpp"
#include "lib/temporary_directory.hpp"

TEST_SUITE("make_file_record") {
  TEST_CASE("the contract of records is kept") {
    const osm::testing::TemporaryDirectory folder;
    osm::testing::check_record_contract(
        [&] { return osm::make_file_record(folder.file("rotation.json")); });
  }
}
