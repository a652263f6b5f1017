// The closed forms of the routes' costs (Route::rounds, Route::bytes), read and worked out for a world.
#pragma once

#include <string>
#include <string_view>

#include "ripieno/collective/schedule.h"

namespace ripieno::collective {

/// What a form comes to. It may hold numbers, + - * / and parentheses (what stands side by side is multiplied:
/// "2n(P-1)/P"), min(a, b), ceil, floor and log2 ("ceil(log2 P)"), and the letters
///   n  bytes of the buffer
///   P  ranks; Q: the largest power of two among them
///   M  ranks of the fullest node; N: nodes
/// Throws Error(internal) that names the form where it cannot be read.
double closed_form(std::string_view form, World world, double n);

/// What a form's letters are in this world, those that speak for themselves left out: "Q = 4"; "" where there are none.
std::string letters_of(std::string_view form, World world);

}  // namespace ripieno::collective
