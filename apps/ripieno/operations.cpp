#include "apps/ripieno/operations.h"

#include <algorithm>

#include "ripieno/codec/wire.h"
#include "ripieno/core/edit_distance.h"

namespace ripieno::program {
namespace {

bool has_route(transport::Collective operation, std::string_view route) {
  const auto all = collective::routes(operation);
  return std::any_of(all.begin(), all.end(), [&](const collective::Route& one) { return one.name == route; });
}

/// "all-reduce", "all-reduce and all-gather", "all-reduce, reduce-scatter and all-gather"
std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (std::size_t i = 0; i < words.size(); ++i) {
    all += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  }
  return all;
}

}  // namespace

bool is_operation(std::string_view name) {
  return std::any_of(collective::collectives.begin(), collective::collectives.end(),
                     [&](transport::Collective one) { return name == transport::name(one); });
}

std::string list_operations() {
  std::string all;
  for (const transport::Collective one : collective::collectives)
    all += text(all.empty() ? "" : ", ", transport::name(one));
  return all;
}

std::string list_wire_formats() {
  std::string all;
  for (const codec::WireFormat& one : codec::wire_formats()) all += text(all.empty() ? "" : ", ", one.name);
  return all;
}

transport::Collective find_operation(std::string_view name) {
  return find_named(collective::collectives, name, "operation");
}

std::vector<transport::Collective> find_operations(const std::string& names) {
  if (names == "all") return {collective::collectives.begin(), collective::collectives.end()};
  std::vector<transport::Collective> found;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const transport::Collective one = find_operation(names.substr(begin, end - begin));
    if (std::find(found.begin(), found.end(), one) == found.end()) found.push_back(one);
    begin = end + 1;
  }
  return found;
}

std::string promise_of(transport::Collective operation, int root, std::string_view ends) {
  switch (operation) {
    case transport::Collective::all_reduce:
      return text("every rank ", ends, " the sum of all");
    case transport::Collective::reduce_scatter:
      return text("every rank ", ends, " its own chunk of the sum of all");
    case transport::Collective::all_gather:
      return text("every rank ", ends, " all ranks' chunks");
    case transport::Collective::broadcast:
      return text("every rank ", ends, " rank ", root, "'s numbers");
    case transport::Collective::reduce:
      return text("rank ", root, " ", ends, " the sum of all");
    case transport::Collective::gather:
      return text("rank ", root, " ", ends, " all ranks' chunks");
    case transport::Collective::scatter:
      return text("every rank ", ends, " its own chunk of rank ", root, "'s numbers");
    case transport::Collective::all_to_all:
      return text("every rank ", ends, " the block that every rank had for it");
  }
  return "";
}

bool is_route_of_any(std::string_view name) {
  return std::any_of(collective::collectives.begin(), collective::collectives.end(),
                     [&](transport::Collective one) { return has_route(one, name); });
}

const collective::Route& find_route_of(transport::Collective operation, std::string_view route) {
  if (has_route(operation, route) || !is_route_of_any(route)) return collective::find_route(route, operation);
  std::vector<std::string> own, others;
  for (const collective::Route& one : collective::routes(operation)) own.emplace_back(one.name);
  for (const transport::Collective one : collective::collectives) {
    if (has_route(one, route)) others.emplace_back(transport::name(one));
  }
  fail(ErrorKind::usage, transport::name(operation), " has no route \"", route, "\": ", joined(others),
       others.size() == 1 ? " has" : " have", " (--operation); the routes of ", transport::name(operation), " are ",
       joined(own));
}

void check_root(int root, int ranks) {
  if (root < ranks) return;
  fail(ErrorKind::usage, "--root ", root, " is none of ", ranks, ranks == 1 ? " rank" : " ranks",
       ", which are numbered from 0; take 0 to ", ranks - 1);
}

}  // namespace ripieno::program
