// `osm graph`: who may call whom, as a picture.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "mesh/commands.hpp"
#include "show.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

struct Edge {
  std::string source, destination, label;
};

std::vector<Edge> edges_of(const json::value& answer) {
  std::vector<Edge> edges;
  for (const json::value& edge : list_at(answer, "edges")) {
    const std::string object = text_at(edge, "object");
    edges.push_back({printable(text_at(edge, "source")), printable(text_at(edge, "destination")),
                     printable(fmt::format("{}, encryption: {} ({})", text_at(edge, "detail"),
                                           text_at(edge, "encryption"),
                                           object.empty() ? "MeshConfig" : object))});
  }
  return edges;
}

// Replaces each character of `text` that `replaced` has.
std::string escaped(std::string_view text, const std::map<char, std::string_view>& replaced) {
  std::string out;
  for (const char c : text) {
    const auto at = replaced.find(c);
    if (at == replaced.end())
      out += c;
    else
      out += at->second;
  }
  return out;
}

std::string dot(const json::value& answer) {
  const auto quoted = [](const std::string& text) {
    return '"' + escaped(text, {{'"', "\\\""}, {'\\', "\\\\"}}) + '"';
  };
  std::string out = "digraph mesh {\n  rankdir=LR;\n  node [shape=box];\n";
  for (const Edge& edge : edges_of(answer))
    out += fmt::format("  {} -> {} [label={}];\n", quoted(edge.source), quoted(edge.destination),
                       quoted(edge.label));
  return out + "}\n";
}

// A number for each name, in the order of their first appearance.
class Numbers {
 public:
  std::size_t of(const std::string& name) {
    const auto [at, added] = numbers_.emplace(name, names_.size());
    if (added) names_.push_back(name);
    return at->second;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> names_;
};

const std::map<char, std::string_view> kMarkup{
    {'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}};

std::string mermaid(const json::value& answer) {
  Numbers nodes;
  std::string lines;
  for (const Edge& edge : edges_of(answer)) {
    const std::size_t from = nodes.of(edge.source), to = nodes.of(edge.destination);
    lines += fmt::format("  n{} -->|\"{}\"| n{}\n", from, escaped(edge.label, kMarkup), to);
  }
  std::string out = "flowchart LR\n";
  for (std::size_t i = 0; i < nodes.names().size(); ++i)
    out += fmt::format("  n{}[\"{}\"]\n", i, escaped(nodes.names()[i], kMarkup));
  return out + lines;
}

// Callers on the left, the called on the right, a line for each permission.
std::string svg(const json::value& answer) {
  constexpr int kRow = 28, kLeft = 20, kRight = 620, kWidth = 1000, kLineLeft = 320;
  Numbers left, right;
  std::string lines;
  const auto height = [](std::size_t row) { return 30 + static_cast<int>(row) * kRow; };
  for (const Edge& edge : edges_of(answer))
    lines += fmt::format(
        "  <line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#555\" marker-end=\"url(#end)\">"
        "<title>{}</title></line>\n",
        kLineLeft, height(left.of(edge.source)) - 5, kRight - 10,
        height(right.of(edge.destination)) - 5, escaped(edge.label, kMarkup));
  const auto column = [&](const Numbers& names, int x) {
    std::string texts;
    for (std::size_t i = 0; i < names.names().size(); ++i)
      texts += fmt::format("  <text x=\"{}\" y=\"{}\">{}</text>\n", x, height(i),
                           escaped(names.names()[i], kMarkup));
    return texts;
  };
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
             "font-family=\"sans-serif\" font-size=\"14\">\n"
             "  <defs><marker id=\"end\" markerWidth=\"8\" markerHeight=\"8\" refX=\"6\" "
             "refY=\"3\" "
             "orient=\"auto\"><path d=\"M0,0 L6,3 L0,6 z\" fill=\"#555\"/></marker></defs>\n",
             kWidth, height(std::max(left.names().size(), right.names().size()))) +
         lines + column(left, kLeft) + column(right, kRight) + "</svg>\n";
}

}  // namespace

void add_graph(CLI::App& root, Flags& flags) {
  CLI::App* app =
      command(root, flags, "graph", "Permitted calls, with encryption and deciding rule",
              "osm graph\n"
              "  osm graph -o mermaid\n"
              "  osm graph -o dot | dot -Tpng > mesh.png",
              false);
  app->add_option("-o,--output", flags.output,
                  "table; dot (Graphviz), mermaid or svg for a picture; json or yaml for programs")
      ->check(CLI::IsMember({"table", "dot", "mermaid", "svg", "json", "yaml"}))
      ->capture_default_str();
  app->callback([&flags] {
    const auto answer = flags.client().get("/v1/graph");
    const auto show = flags.output == "dot"       ? dot
                      : flags.output == "mermaid" ? mermaid
                      : flags.output == "svg"     ? svg
                                                  : show_graph;
    flags.exit_code = print(flags, answer, show);
  });
}

}  // namespace osm::cli
