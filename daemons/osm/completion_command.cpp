// `osm completion`: scripts by which shells complete the command line, made of the commands
// themselves.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "command.hpp"

namespace osm::cli {
namespace {

struct Word {
  std::string text;
  std::string help;  // the first line of its description
};

// A command with what may follow it.
struct Node {
  std::string path;  // " proxy list"; empty: osm
  std::vector<Word> commands;
  std::vector<Word> options;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

void collect(const CLI::App& app, const std::string& path, std::vector<Node>& nodes) {
  Node node{path, {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames())
      node.options.push_back({"--" + name, first_line(option->get_description())});
    for (const std::string& name : option->get_snames())
      node.options.push_back({"-" + name, first_line(option->get_description())});
  }
  const auto all = [](const CLI::App*) { return true; };
  for (const CLI::App* command : app.get_subcommands(all))
    node.commands.push_back({command->get_name(), first_line(command->get_description())});
  nodes.push_back(std::move(node));
  for (const CLI::App* command : app.get_subcommands(all))
    collect(*command, path + ' ' + command->get_name(), nodes);
}

std::string words_of(const Node& node) {
  std::string words;
  for (const auto* list : {&node.commands, &node.options})
    for (const Word& word : *list) words += (words.empty() ? "" : " ") + word.text;
  return words;
}

std::string bash(const std::vector<Node>& nodes) {
  std::string paths, words;
  for (const Node& node : nodes) {
    if (!node.path.empty()) paths += fmt::format("{}\"{}\"", paths.empty() ? "" : "|", node.path);
    words += fmt::format("    \"{}\") words=\"{}\" ;;\n", node.path, words_of(node));
  }
  return fmt::format(
      R"(_osm() {{
  local path="" word words=""
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $word" in
      {}) path="$path $word" ;;
    esac
  done
  case "$path" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _osm osm
)",
      paths, words);
}

// zsh reads the script of bash.
std::string zsh(const std::vector<Node>& nodes) {
  return "#compdef osm\nautoload -U +X compinit && compinit\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash(nodes);
}

std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text)
    out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

std::string fish(const std::vector<Node>& nodes) {
  std::string paths, lines;
  for (const Node& node : nodes) {
    if (!node.path.empty()) paths += ' ' + in_quotes(node.path);
    const std::string where = "complete -c osm -n " + in_quotes("__osm_at " + in_quotes(node.path));
    for (const Word& word : node.commands)
      lines += fmt::format("{} -f -a {} -d {}\n", where, word.text, in_quotes(word.help));
    for (const Word& word : node.options)
      lines +=
          word.text.starts_with("--")
              ? fmt::format("{} -l {} -d {}\n", where, word.text.substr(2), in_quotes(word.help))
              : fmt::format("{} -s {} -d {}\n", where, word.text.substr(1), in_quotes(word.help));
  }
  return fmt::format(
      R"(function __osm_at
  set -l path ''
  for word in (commandline -opc)[2..-1]
    contains -- "$path $word"{} && set path "$path $word"
  end
  test "$path" = "$argv[1]"
end
{})",
      paths, lines);
}

}  // namespace

void add_completion(CLI::App& root, Flags& flags) {
  auto shell = std::make_shared<std::string>();
  CLI::App* app =
      root.add_subcommand("completion", "Print a script by which a shell completes `osm`");
  app->footer(
      "Example:\n"
      "  source <(osm completion bash)\n"
      "  osm completion zsh > \"${fpath[1]}/_osm\"\n"
      "  osm completion fish > ~/.config/fish/completions/osm.fish");
  app->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app->callback([&root, &flags, shell] {
    std::vector<Node> nodes;
    collect(root, "", nodes);
    std::cout << (*shell == "bash" ? bash(nodes) : *shell == "zsh" ? zsh(nodes) : fish(nodes));
    flags.exit_code = std::cout.flush() ? kDone : kFailed;
  });
}

}  // namespace osm::cli
