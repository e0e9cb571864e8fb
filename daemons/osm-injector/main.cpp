#include "injector.hpp"

int main(int argc, char** argv) {
  osm::injector::Options options;
  if (const int code = osm::injector::parse_options(argc, argv, options); code >= 0) return code;
  return osm::daemon::run("osm-injector", options.log_level, [&](osm::OwnRuntime& runtime) {
    return osm::injector::start(options, runtime);
  });
}
