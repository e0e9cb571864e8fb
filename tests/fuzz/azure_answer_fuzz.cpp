// Bodies of Azure Resource Manager, its authority and the metadata service → their readers: no
// input ends the process, a token fits into a header, and no page leads to another server.
//
//   input: a letter that chooses the reader, then the body.

#include <algorithm>
#include <string>
#include <string_view>

#include "azure/answers.hpp"
#include "azure/url.hpp"
#include "fuzz/fuzz.hpp"
#include "machines/azure_resource.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

bool printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
}

void check_next(const std::string& next) {
  static const azure::Server kServer = *azure::parse_server("https://management.azure.com");
  if (const auto target = azure::target_at(kServer, next)) {
    require(target->starts_with('/') && printable(*target), "a target is one word of a request");
  }
}

void run(std::string_view input) {
  if (input.empty()) return;
  const std::string_view body = input.substr(1);
  switch (input.front()) {
    case 'm':
      if (const auto machine = azure::read_virtual_machine(body); machine && machine->zone)
        require(printable(*machine->zone), "a zone is a word");
      break;
    case 'f':
      (void)azure::read_scale_set(body);
      break;
    case 'i':
      (void)azure::read_interface(body);
      break;
    case 'p':
      if (const auto page = azure::read_interfaces(body)) check_next(page->next);
      break;
    case 's':
      if (const auto page = azure::read_instances(body)) check_next(page->next);
      break;
    case 't':
      if (const auto token = azure::read_token(body)) {
        require(!token->text.empty() && printable(token->text.text()), "a token is a word");
        require(token->life.count() >= 0, "a token's life is not negative");
      }
      break;
    case 'e':
      require(printable(azure::error_of(body)), "an error is one line");
      require(printable(azure::token_error_of(body)), "an error is one line");
      break;
    case 'r':
      if (const auto id = azure::resource_id_of(body))
        require(azure::resource_id_of(id->text).has_value() && printable(id->text),
                "an id reads as itself");
      break;
    default:
      check_next(std::string(body));
  }
}

const bool kAdded = add("azure_answer", [](std::string_view input) { run(input); });

}  // namespace
