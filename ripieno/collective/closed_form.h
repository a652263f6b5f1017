// The closed forms of the routes' costs (Route::rounds, Route::bytes), evaluated for a world.
#pragma once

#include <string>
#include <string_view>

#include "ripieno/collective/schedule.h"

namespace ripieno::collective {

/// Evaluates a form. It may hold numbers, + - * / and parentheses (adjacent factors are multiplied: "2n(P-1)/P"),
/// min(a, b), ceil, floor and log2 ("ceil(log2 P)"), and the letters
///   n  bytes of the buffer
///   P  ranks; Q: the largest power of two among them
///   M  ranks of the fullest node; N: nodes
/// Throws Error(internal), which names the form, if it cannot be parsed.
double closed_form(std::string_view form, World world, double n);

/// The values of a form's letters in this world, without the obvious ones: "Q = 4"; "" if there are none.
std::string letters_of(std::string_view form, World world);

}  // namespace ripieno::collective
