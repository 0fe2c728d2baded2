/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ship.h"

#include <math.h>

/* Seconds for which it has turned at t_s. */
static double turned_s(const sim_ship *ship, double t_s) {
    const double most_s = ship->turn_by_deg > 0 && ship->turn_deg_s != 0
                              ? ship->turn_by_deg / fabs(ship->turn_deg_s)
                              : HUGE_VAL;
    return fmin(fmax(t_s - ship->turn_from_s, 0), most_s);
}

double sim_ship_heading(const sim_ship *ship, double t_s) {
    return ship->heading_deg + ship->turn_deg_s * turned_s(ship, t_s);
}

static double behind(const sim_ship *ship, double t_s, double distance_m) {
    return ship->trail_m > 0 ? t_s - distance_m / ship->speed_mps : t_s;
}

double sim_ship_heading_behind(const sim_ship *ship, double t_s, double distance_m) {
    return sim_ship_heading(ship, behind(ship, t_s, distance_m));
}

double sim_ship_array_heading(const sim_ship *ship, double t_s) {
    return sim_ship_heading_behind(ship, t_s, ship->trail_m);
}

/* Place of the ship at t_s, as metres north and east of where the turn begins. */
static void find_place(const sim_ship *ship, double t_s, double place_m[2]) {
    const double turning_s = turned_s(ship, t_s), rate = ship->turn_deg_s * M_PI / 180;
    const double from = ship->heading_deg * M_PI / 180, to = from + rate * turning_s;
    const double straight_m = ship->speed_mps * (t_s - ship->turn_from_s - turning_s);
    place_m[0] = straight_m * cos(to);
    place_m[1] = straight_m * sin(to);
    if (turning_s > 0 && rate != 0) {
        place_m[0] += ship->speed_mps / rate * (sin(to) - sin(from));
        place_m[1] += ship->speed_mps / rate * (cos(from) - cos(to));
    }
}

void sim_ship_sensor(const sim_ship *ship, double t_s, const double position_m[3],
                     double place_m[3]) {
    double origin[2], at[2];
    const double heading = sim_ship_array_heading(ship, t_s) * M_PI / 180;
    find_place(ship, behind(ship, t_s, ship->trail_m), origin);
    find_place(ship, behind(ship, t_s, ship->trail_m - position_m[0]), at);
    const double north = at[0] - origin[0], east = at[1] - origin[1];
    place_m[0] = cos(heading) * north + sin(heading) * east;
    place_m[1] = cos(heading) * east - sin(heading) * north + position_m[1];
    place_m[2] = position_m[2];
}
