// No input of a resource, and no other digest than the mesh's, has an origin or a provider's name.
#include <map>
#include <string>
#include <vector>

#include "model/origin.hpp"
#include "translate/input.hpp"

struct Values {
  static constexpr osm::XdsType kType = osm::XdsType::kCluster;
  static constexpr std::string_view kKind = "values";

  std::string host;
#ifdef OriginInInput
  osm::model::Origin origin{};
#elif defined(OriginsInInput)
  std::map<std::string, std::vector<osm::model::Origin> > origins{};
#elif defined(ProvidersInInput)
  osm::model::ProviderNames providers{};
#endif

  osm::translate::Encoding encode(const std::string&) const { return {host, {}}; }
};

int main() { return osm::translate::make_input("name", Values{})->key().bytes[0]; }
