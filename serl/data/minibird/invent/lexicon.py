"""The English of invented tables; synonyms are separated by "/".

Every noun forms its plural as phrases.plural does, and none is a table's of the databases that are never trained on.
"""

from __future__ import annotations

# What a table has a row of: people, who have first and last names, and everything else.
PEOPLE = tuple(
    """pilot/aviator farmer/grower baker sailor/mariner tailor miner nurse lawyer/attorney judge soldier officer clerk
    guard/sentry guide hunter gardener plumber mechanic scholar tutor witness voter tenant donor/giver sponsor scout
    ranger captain/skipper chef/cook waiter dancer poet editor translator inspector/examiner curator broker dealer
    courier diver climber cyclist rider runner swimmer boxer referee volunteer/helper apprentice monk knight shepherd
    fisher weaver potter carpenter mason welder porter singer actor violinist dentist surgeon chemist engineer
    programmer analyst manager/boss partner delegate mayor senator diplomat refugee settler pilgrim heir"""
    .split())
THINGS = tuple(
    """sensor/detector engine/motor pump valve boiler robot drone truck/lorry tractor wagon ferry canoe bicycle/bike
    scooter tunnel bridge tower castle/fortress farm orchard pond lake island canal harbor/port dock depot
    warehouse/storehouse factory workshop studio bakery cafe market kiosk/stand theater stage temple chapel college
    camp cabin/hut tent cottage villa barn stable kennel aquarium forest/wood meadow glacier volcano cave/cavern mine
    quarry trail/footpath route road parcel/package crate barrel basket bottle jar pallet container bundle camera
    telescope microscope printer scanner laptop tablet phone/telephone server router battery cable/wire lamp mirror
    clock statue carpet/rug sofa/couch ladder hammer drill violin flute drum piano guitar poem novel essay letter
    report article/paper chapter lecture/talk seminar exam contest/competition tournament festival parade ceremony
    wedding auction meeting protest election survey petition contract/agreement invoice/bill receipt voucher coupon
    ticket license permit patent claim complaint request inspection repair delivery shipment voyage expedition
    trip/journey harvest/crop experiment trial treatment/therapy vaccine recipe dish dessert cheese sauce beverage/drink
    horse falcon goat turtle parrot beetle spider orchid shrub/bush mushroom fossil mineral crystal planet comet
    asteroid satellite rocket/missile mission signal message channel broadcast episode puppet mask costume jacket/coat
    helmet medal/award coin stamp mural poster banner compass blueprint module lesson clinic pharmacy prison embassy
    archive folder label token widget bracket gadget bearing turbine reactor furnace kiln loom anvil bucket kettle
    teapot cushion blanket pillow curtain bench shelter fountain arch monument ruin trench fence gate hinge
    lantern candle
    ship/vessel bus tram sled raft balloon glider pipeline reservoir dam levee pier lighthouse buoy"""
    .split())
RESERVED_THINGS = ("order", "transaction", "check")
# Before a table's noun: "river guide".
MODIFIERS = tuple(
    """river winter summer night village desk home stone street garden mountain desert coast harvest paper steel glass
    copper cargo travel safety training service field team city state family club sample spare reserve test guest
    evening morning storm ocean valley border temple school office market student junior senior master""".split())

# What stands between a table's rows and the rows referred to.
LINKS = ("of", "of", "for", "by", "from", "in", "at", "under", "near", "belonging to", "assigned to", "linked to")
LABELS = ("name", "name", "name", "title", "full name", "label", "designation", "nickname", "name/title")
CODE_LABELS = ("code", "serial number", "number", "tag", "reference", "identifier")
# How a row's own name is made, from the pools of words.py; each alone can give hundreds of them.
TITLES = ("The {adjective} {noun}", "{adjective} {noun}", "{noun} of {place}", "{last}'s {noun}", "{place} {noun}",
          "{noun} in {city}", "{last} & {place}", "{noun} and {last}", "{city} {noun}", "{place} {last}")

# Short forms that people use; other words lose their vowels or their ends.
SHORT = dict(pair.split(":") for pair in
    """date:dt number:no quantity:qty amount:amt price:prc weight:wt height:ht length:len width:wd temperature:temp
    category:cat type:typ status:sts department:dept average:avg current:cur account:acct address:addr order:ord
    transaction:txn registration:reg delivery:dlv report:rpt language:lang year:yr group:grp identifier:ident
    reference:ref description:desc position:pos manager:mgr percent:pct frequency:freq message:msg""".split())
